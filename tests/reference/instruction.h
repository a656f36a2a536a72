// The parts of an instruction, for operation_*.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <vector>

#include "operation.h"

namespace cupel::reference {

struct Words {
  ptx::Opcode op = ptx::Opcode::kUnknown;
  ptx::Modifiers modifiers;
  ptx::Types types;

  bool Has(ptx::Modifier word) const { return modifiers.Has(word); }
  /// True if every modifier that is not a type is in `known`. An unknown modifier could change the
  /// instruction's meaning.
  bool Only(std::initializer_list<ptx::Modifier> known) const;
  std::optional<Rounding> FloatRounding() const;
};

// Each function supports a part of the instruction set and returns nothing for the rest.
std::optional<Operation> IntegerOperation(const Words& words);
std::optional<Operation> BitOperation(const Words& words);
std::optional<Operation> FloatOperation(const Words& words);
std::optional<Operation> HalfOperation(const Words& words);
std::optional<Operation> ApproximateOperation(const Words& words);
std::optional<Operation> CompareOperation(const Words& words);
std::optional<Operation> ConvertOperation(const Words& words);
std::optional<Operation> RareOperation(const Words& words);

/// An operation without rounding.
Operation OperationOn(int result_bits, std::vector<int> operand_bits,
                      std::function<uint64_t(const Operands&)> compute);

/// An operation on one format for each half of a packed operand.
Operation InHalves(const Operation& one);

// In operation_float.cc: shared by float and half operations.
uint64_t Saturated(uint64_t bits, const Format& format);
uint64_t Smaller(uint64_t a, uint64_t b, const Format& format);
uint64_t Larger(uint64_t a, uint64_t b, const Format& format);

}  // namespace cupel::reference
