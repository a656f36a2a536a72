// What executes kernels beside the reference: the fast interpreter or a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cupel::reference {

class Runner {
 public:
  virtual ~Runner() = default;
  virtual std::string Name() const = 0;
  /// Takes a module in the place of the last one. Empty, or the reason why not, which names lines
  /// of the text ("line 12;") that it does not accept.
  virtual std::string Load(const std::string& text) = 0;
  /// Runs a kernel whose parameters are pointers to the buffers. Empty, or what went wrong.
  virtual std::string Run(const std::string& kernel, uint32_t grid, uint32_t block,
                          std::span<std::vector<std::byte>* const> buffers) = 0;
};

std::unique_ptr<Runner> FastRunner();
/// Through the driver's library, opened now, whose compiler optimises at a level from 0 to 4. Null,
/// with the reason, when there is no usable GPU.
std::unique_ptr<Runner> GpuRunner(int optimization, std::string* why_not);

}  // namespace cupel::reference
