// What one PTX instruction computes from its operands' bits, written from the PTX ISA's text with
// exact arithmetic (exact.h). Covers instructions with one result that depends only on operands.
// Shares no code with src/emu.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "exact.h"
#include "ptx/ir.h"

namespace cupel::reference {

/// Bits of up to four operands, of the first `bits` of each; predicates are 0 or 1.
using Operands = std::array<uint64_t, 4>;

/// PTX's precision of an .approx instruction. A result is correct if its distance from the
/// exact result is within any of the bounds.
struct Bound {
  double relative = 0;
  double absolute = 0;
  int ulps = 0;  // of the exact result
  // Outside these, PTX defines no precision.
  double lowest = -1e300, highest = 1e300;  // of the first operand
  bool stated = true;                       // false: PTX gives no bound, this is our estimate
};

struct Operation {
  int result_bits = 32;  // 1: a predicate
  bool result_is_signed = false;
  std::vector<int> operand_bits;
  std::function<uint64_t(const Operands&)> compute;
  /// The format of a floating-point result (of both halves if `packed`). All NaNs are equal.
  const Format* float_result = nullptr;
  bool packed = false;
  /// Whether subnormal numbers are flushed.
  bool flushes = false;
  /// Whether PTX leaves the result undefined for these operands. Null: never.
  std::function<bool(const Operands&)> is_undefined;
  /// Not null for .approx: the exact value, of which `compute` is a rounding.
  std::function<long double(const Operands&)> exact;
  Bound bound;
};

/// Returns nothing if the reference does not support the instruction.
std::optional<Operation> FindOperation(ptx::Opcode op, const ptx::Modifiers& modifiers);

/// Whether `got` is a correct result. `expected` is the result of `compute`.
bool Agrees(const Operation& operation, const Operands& operands, uint64_t expected, uint64_t got);

/// The format of a scalar type, or of each half of a packed one; null for integers.
const Format* FormatOf(ptx::Type type);
bool IsSigned(ptx::Type type);
/// Bits of a value of that type; 1 for a predicate.
int BitsOf(ptx::Type type);
uint64_t Truncate(uint64_t value, int bits);
int64_t SignExtend(uint64_t value, int bits);

}  // namespace cupel::reference
