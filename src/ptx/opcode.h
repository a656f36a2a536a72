// The opcodes of PTX. opcodes.def has one row for each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace cupel::ptx {

enum class Opcode : uint8_t {
  kUnknown,  // not in the table
#define CUPEL_OPCODE(enumerator, text, writes, ...) enumerator,
#include "ptx/opcodes.def"
};

/// Which operands an instruction writes.
enum class Writes : uint8_t {
  kNothing,
  kFirst,             // the first, unless it is an address
  kUpdatesFirst,      // the first, which is also read
  kFirstOfReduction,  // the first, if the instruction has the modifier .red
  kFirstOfLoad,       // the first, if the instruction has the modifier .ld
};

/// kUnknown if no row has this text.
Opcode OpcodeNamed(std::string_view text);
/// "ld"; "unknown" for kUnknown.
std::string_view Name(Opcode opcode);
Writes WritesOf(Opcode opcode);

}  // namespace cupel::ptx
