// Calls that are not inlined: calls of recursive functions and calls through pointers. Each lane
// has a stack. All invocations of a function use the same frame slots as registers, so a call saves
// the caller's registers. Variables are in local memory at the lane's stack pointer.
//
//   local memory of a lane: | the kernel's variables | frame | frame | … up to Kernel::local_bytes
//   a frame: results, then arguments, each at a multiple of 16; then the function's variables
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// Limit on the host memory for the call stacks of one block.
inline constexpr uint64_t kMostStackBytes = uint64_t{64} << 20;

/// Function addresses are outside all other windows.
inline constexpr uint64_t kCodeWindow = 0x0000'7b00'0000'0000u;
inline constexpr uint64_t kCodeStep = 16;
/// The address of a function of the module; nullopt if the module defines no such function.
std::optional<uint64_t> AddressOfFunction(const ptx::Module& module, std::string_view name);

/// Stack bytes per thread that kernels with calls get in addition to their own variables.
inline constexpr uint32_t kCallStackBytes = 8192;
inline constexpr uint32_t kFrameAlign = 16;

/// The stacks of a block's lanes.
class CallStacks {
 public:
  struct Record {
    const Op* call = nullptr;
    uint32_t stack_pointer = 0;
    size_t saved = 0;  // index in Lane::values of its first saved value
  };
  struct Lane {
    std::vector<Record> records;
    std::vector<uint64_t> values;
  };
  explicit CallStacks(size_t warps) : lanes_(warps * kLanes) {}
  Lane& LaneOf(const Warp& warp, int lane) {
    return lanes_[warp.index * size_t{kLanes} + static_cast<size_t>(lane)];
  }
  uint64_t saved_values = 0;  // of all lanes

 private:
  std::vector<Lane> lanes_;
};

}  // namespace cupel::emu
