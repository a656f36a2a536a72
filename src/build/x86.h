// Lengths of x86-64 instructions, and which of them call the kernel: enough to walk through a
// candidate's code without mistaking bytes of an address or a constant for an instruction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace cupel::build {

/// Bytes of the instruction at the beginning of `code`; 0 if it is invalid or cut off.
size_t InstructionLength(std::span<const std::byte> code);

struct SystemCalls {
  std::vector<size_t> offsets;  // of syscall, sysenter and int 0x80; at most 16
  /// Names of the instructions whose results differ from call to call: clocks, counters, random
  /// numbers and the processor's number.
  std::set<std::string_view> impure;
  /// Places where the walk found bytes that are not an instruction and continued at the next byte.
  /// After the first such place, results may be wrong.
  size_t undecoded = 0;
};

/// Walks through a section from its beginning.
SystemCalls FindSystemCalls(std::span<const std::byte> code);

}  // namespace cupel::build
