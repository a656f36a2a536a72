// Memory that kernels can reach and must leave as it is: whoever changes it hides something there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "engine/run.h"
#include "gpu/clock.h"

namespace cupel::gpu {

class Guard {
 public:
  static Result<Guard> Make(const Device& device, const Clock& clock);

  /// From now on; what does not fill 16 bytes at the end is left out. `name` is for people.
  void Watch(CuPointer address, uint64_t bytes, std::string name);
  /// Remembers what is there.
  Status Remember();
  /// The names of what has changed since.
  Result<std::vector<std::string>> Changed();

 private:
  struct Area {
    CuPointer address = 0;
    uint64_t bytes = 0;
    std::string name;
  };
  Guard(const Device& device, const Clock& clock, Block sums)
      : device_(&device), clock_(&clock), sums_(std::move(sums)) {}
  Result<std::vector<uint64_t>> Sums();

  const Device* device_;
  const Clock* clock_;
  Block sums_;  // a number for each area
  std::vector<Area> areas_;
  std::vector<uint64_t> remembered_;
};

}  // namespace cupel::gpu
