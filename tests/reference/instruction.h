// The words of an instruction, as operation_*.cc take them apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operation.h"

namespace cupel::reference {

struct Words {
  std::string_view op;
  std::vector<std::string> modifiers;
  std::vector<ptx::Type> types;

  bool Has(std::string_view word) const {
    return std::find(modifiers.begin(), modifiers.end(), word) != modifiers.end();
  }
  /// True when every modifier that names no type is one of `known`: a modifier that the reference
  /// does not know may mean anything.
  bool Only(std::initializer_list<std::string_view> known) const;
  std::optional<Rounding> FloatRounding() const;
};

// Each knows a part of the instruction set and returns nothing for the rest.
std::optional<Operation> IntegerOperation(const Words& words);
std::optional<Operation> BitOperation(const Words& words);
std::optional<Operation> FloatOperation(const Words& words);
std::optional<Operation> HalfOperation(const Words& words);
std::optional<Operation> ApproximateOperation(const Words& words);
std::optional<Operation> CompareOperation(const Words& words);
std::optional<Operation> ConvertOperation(const Words& words);
std::optional<Operation> RareOperation(const Words& words);

/// One without rounding: the widths of its result and operands, and what it computes.
Operation OperationOn(int result_bits, std::vector<int> operand_bits,
                      std::function<uint64_t(const Operands&)> compute);

/// An operation on one format for each half of a packed operand.
Operation InHalves(const Operation& one);

// Of floats.cc: what float and half operations share.
uint64_t Saturated(uint64_t bits, const Format& format);
uint64_t Smaller(uint64_t a, uint64_t b, const Format& format);
uint64_t Larger(uint64_t a, uint64_t b, const Format& format);

}  // namespace cupel::reference
