// Which functions are called out of line, and what their calls pass (core/call_stacks.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emu/core/call_stacks.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// A function that is called out of line, and its place in the body after inlining.
struct CalledFunction {
  const ptx::Function* function = nullptr;
  int begin = 0, end = 0;                       // instructions
  int first_register = 0, end_register = 0;     // including those of functions inlined into it
  size_t first_variable = 0, end_variable = 0;  // results and arguments first
  size_t parameters = 0;                        // number of results and arguments
};

/// A call of such a function. `@call`'s first operand is its index.
struct CallSite {
  struct Piece {
    std::string variable;  // the caller's
    uint32_t offset = 0;   // in the callee's frame
    uint32_t bytes = 0;
  };
  std::vector<Piece> arguments, results;
  int callee = -1;  // index of a CalledFunction; -1: through a pointer
};

/// The offsets in a frame of the results, then of the arguments.
std::vector<uint32_t> ParameterOffsets(const std::vector<ptx::Param>& results,
                                       const std::vector<ptx::Param>& arguments);

/// The functions that calls from `entry` may reach out of line: recursive functions and, if `entry`
/// may call through pointers, functions whose address is taken somewhere.
std::vector<const ptx::Function*> FunctionsToCall(const ptx::Module& module,
                                                  const ptx::Function& entry);

/// True if the function may call itself, directly or indirectly.
bool CallsItself(const ptx::Module& module, const ptx::Function& function);

}  // namespace cupel::emu
