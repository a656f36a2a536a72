// Random PTX programs whose results PTX defines bit for bit: typed arithmetic, guards, branches,
// loops and switches that lanes leave at different times, barriers, shuffles, votes, atomics that
// commute, local memory and calls. The same seed gives the same program on every machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exact.h"

namespace cupel::reference {

/// Sizes in bytes: operands and results of a thread, and the buffer that all threads share.
inline constexpr size_t kProgramInput = 64, kProgramOutput = 512, kCommonBytes = 256;

/// An 8-byte slot in a thread's results.
struct Slot {
  int bits = 32;
  const Format* format = nullptr;  // of a float, or of each part of a packed one
};

struct Program {
  uint64_t seed = 0;
  uint32_t grid = 1, block = 32;
  std::vector<Slot> slots;
  std::string functions;            // device functions
  std::string prologue;             // of the kernel
  std::vector<std::string> chunks;  // each can be left out
  std::string epilogue;

  std::string KernelName() const { return "p" + std::to_string(seed); }
  /// The functions and the kernel, without the module's header.
  std::string Text() const { return functions + prologue + Body() + epilogue; }
  std::string Body() const;
};

inline constexpr const char* kModuleHead = ".version 8.0\n.target sm_90\n.address_size 64\n";

/// Kernel p<seed>(in, out, common).
Program GenerateProgram(uint64_t seed);
/// Removes the chunks that the failure does not need.
Program Minimised(Program program, const std::function<bool(const Program&)>& fails);
/// Operands for all threads.
std::vector<std::byte> ProgramInputs(const Program& program);
/// Returns where the results differ, or an empty string. Parts that no slot covers are compared as
/// bits.
std::string CompareResults(const Program& program, const std::vector<std::byte>& expected,
                           const std::vector<std::byte>& got);

}  // namespace cupel::reference
