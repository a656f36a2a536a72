// Calls that are not replaced by a body: of recursive functions, and through pointers. Each lane
// has a stack. Registers are the frame's slots, which every invocation of a function uses alike, so
// that a call saves the caller's; variables lie in local memory at the lane's stack pointer.
//
//   local memory of a lane: | the kernel's variables | frame | frame | … up to Kernel::local_bytes
//   a frame: results and arguments, each at a multiple of 16 in order, then the function's
//   variables
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emu/op.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// What the calls of one block may have under way, in host memory.
inline constexpr uint64_t kMostStackBytes = uint64_t{64} << 20;

/// Functions have addresses outside of every other window.
inline constexpr uint64_t kCodeWindow = 0x0000'7b00'0000'0000u;
inline constexpr uint64_t kCodeStep = 16;
/// The address of a function of the module; nothing when there is none of that name.
std::optional<uint64_t> AddressOfFunction(const ptx::Module& module, std::string_view name);

/// What kernels with calls get beyond their own variables, for each thread.
inline constexpr uint32_t kCallStackBytes = 8192;
inline constexpr uint32_t kFrameAlign = 16;

/// A function that is called, in the body that calls were inlined into.
struct CalledFunction {
  const ptx::Function* function = nullptr;
  int begin = 0, end = 0;                       // instructions
  int first_register = 0, end_register = 0;     // its own and those of what it inlines
  size_t first_variable = 0, end_variable = 0;  // results and arguments first
  size_t parameters = 0;                        // how many of them these are
};

/// A call of such a function. `@call`'s first operand is its index.
struct CallSite {
  struct Piece {
    std::string variable;  // of the caller
    uint32_t offset = 0;   // in the callee's frame
    uint32_t bytes = 0;
  };
  std::vector<Piece> arguments, results;
  int callee = -1;  // index of a CalledFunction; -1: through a pointer
};

/// Offsets in a frame of results and arguments, in order.
std::vector<uint32_t> ParameterOffsets(const std::vector<ptx::Param>& results,
                                       const std::vector<ptx::Param>& arguments);

/// The functions that `entry` may come to call for real: recursive ones, and, if it may call
/// through pointers, those whose address is taken somewhere.
std::vector<const ptx::Function*> FunctionsToCall(const ptx::Module& module,
                                                  const ptx::Function& entry);

/// Whether running the function may come to run it again.
bool CallsItself(const ptx::Module& module, const ptx::Function& function);

/// The stacks of a block's lanes.
class CallStacks {
 public:
  struct Record {
    const Op* call = nullptr;
    uint32_t stack_pointer = 0;
    size_t saved = 0;  // where its values begin
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
