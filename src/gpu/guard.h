// Watches memory that kernels can reach but must not change. A kernel that changes it may hide data
// there.
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

  /// Adds an area to watch, without incomplete 16-byte units at its ends. `name` is for messages.
  void Watch(CuPointer address, uint64_t bytes, std::string name);
  /// Remembers checksums of the areas.
  Status Remember();
  /// The names of the areas that have changed since Remember.
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
  Block sums_;  // a checksum for each area
  std::vector<Area> areas_;
  std::vector<uint64_t> remembered_;
};

}  // namespace cupel::gpu
