// How long x86-64 instructions are, and which of them call the kernel: enough to walk through the
// code of a candidate and not to take the bytes of an address or a constant for an instruction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace cupel::build {

/// Bytes of the instruction at the beginning of `code`; 0 for what is none, or is cut off.
size_t InstructionLength(std::span<const std::byte> code);

struct SystemCalls {
  std::vector<size_t> offsets;  // of syscall, sysenter and int 0x80; at most 16
  /// Names of the instructions that differ from call to call: clocks and random numbers.
  std::set<std::string_view> impure;
  /// Where the walk met bytes that are no instruction and went on at the next byte; beyond the
  /// first such place what follows may be read out of step.
  size_t undecoded = 0;
};

/// Walks through a section from its beginning.
SystemCalls FindSystemCalls(std::span<const std::byte> code);

}  // namespace cupel::build
