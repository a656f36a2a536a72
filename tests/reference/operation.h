// What one PTX instruction computes from its operands' bits, written from the PTX ISA's text with
// exact arithmetic (exact.h): instructions with one result that depends on nothing but operands.
// Shares no code with src/emu.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "exact.h"
#include "ptx/ir.h"

namespace cupel::reference {

/// Bits of up to four operands, of the first `bits` of each; predicates are 0 or 1.
using Operands = std::array<uint64_t, 4>;

/// How precise PTX says an .approx instruction is. A result is right when it lies within any of the
/// two bounds of the exact one.
struct Bound {
  double relative = 0;
  double absolute = 0;
  int ulps = 0;  // of the exact result
  // Outside these, PTX promises nothing.
  double lowest = -1e300, highest = 1e300;  // of the first operand
  bool stated = true;                       // false: PTX gives no bound, this is for orientation
};

struct Operation {
  int result_bits = 32;  // 1: a predicate
  bool result_is_signed = false;
  std::vector<int> operand_bits;
  std::function<uint64_t(const Operands&)> compute;
  /// Of a floating-point result (of both halves where `packed`): any NaN is as good as another.
  const Format* float_result = nullptr;
  bool packed = false;
  /// Of floating-point operands, for what may differ: null when there are none.
  bool flushes = false;
  /// Says that PTX leaves the result open for these operands. Null: never.
  std::function<bool(const Operands&)> is_undefined;
  /// Not null for .approx: the exact value, of which `compute` is a rounding.
  std::function<long double(const Operands&)> exact;
  Bound bound;
};

/// Null when the reference does not know the instruction (or it is not of this kind).
std::optional<Operation> FindOperation(std::string_view op,
                                       const std::vector<std::string>& modifiers);

/// Whether `got` is a right result; `expected` is what `compute` gave.
bool Agrees(const Operation& operation, const Operands& operands, uint64_t expected, uint64_t got);

/// The format of a scalar type, or of each half of a packed one; null for integers.
const Format* FormatOf(ptx::Type type);
bool IsSigned(ptx::Type type);
/// Bits of a value of that type; 1 for a predicate.
int BitsOf(ptx::Type type);
uint64_t Truncate(uint64_t value, int bits);
int64_t SignExtend(uint64_t value, int bits);

}  // namespace cupel::reference
