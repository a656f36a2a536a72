// Interface for running kernels on the fast interpreter or on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "blocks.h"

namespace cupel::reference {

class Runner {
 public:
  virtual ~Runner() = default;
  virtual std::string Name() const = 0;
  /// Loads a module and replaces the previous one. Returns an error message that names the rejected
  /// lines of the text ("line 12;"), or an empty string.
  virtual std::string Load(const std::string& text) = 0;
  /// Runs a kernel whose parameters are pointers to the buffers, then tensor maps. Returns an error
  /// message, or an empty string.
  virtual std::string Run(const std::string& kernel, uint32_t grid, uint32_t block,
                          std::span<std::vector<std::byte>* const> buffers,
                          std::span<const MapParameter> maps) = 0;
};

std::unique_ptr<Runner> FastRunner();
/// Loads the driver's library. Its compiler uses an optimisation level from 0 to 4. Returns null
/// and sets `reason` if there is no usable GPU.
std::unique_ptr<Runner> GpuRunner(int optimization, std::string* reason);

}  // namespace cupel::reference
