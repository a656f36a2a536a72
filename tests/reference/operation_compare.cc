// Comparisons: setp's result before it is combined with a predicate, and testp. set is a comparison
// that returns a value (machine.cc).
// SPDX-License-Identifier: Apache-2.0
#include "instruction.h"

namespace cupel::reference {
namespace {

using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;

/// Whether a relation holds between integers, or numbers that are not NaN. `order` is -1, 0 or 1.
std::optional<bool> Holds(Modifier relation, int order) {
  if (relation == Modifier::kEq) return order == 0;
  if (relation == Modifier::kNe) return order != 0;
  if (relation == Modifier::kLt || relation == Modifier::kLo) return order < 0;
  if (relation == Modifier::kLe || relation == Modifier::kLs) return order <= 0;
  if (relation == Modifier::kGt || relation == Modifier::kHi) return order > 0;
  if (relation == Modifier::kGe || relation == Modifier::kHs) return order >= 0;
  return std::nullopt;
}

/// The relation without its NaNs for equ, neu, ltu …, which are true for NaNs; else kUnknown.
Modifier Ordered(Modifier relation) {
  switch (relation) {
    case Modifier::kEqu:
      return Modifier::kEq;
    case Modifier::kNeu:
      return Modifier::kNe;
    case Modifier::kLtu:
      return Modifier::kLt;
    case Modifier::kLeu:
      return Modifier::kLe;
    case Modifier::kGtu:
      return Modifier::kGt;
    case Modifier::kGeu:
      return Modifier::kGe;
    default:
      return Modifier::kUnknown;
  }
}

/// Relations between floats, apart from the unordered ones.
bool IsOfFloats(Modifier relation) {
  return ptx::Modifiers{Modifier::kEq, Modifier::kNe, Modifier::kLt,       Modifier::kLe,
                        Modifier::kGt, Modifier::kGe, Modifier::kIsNumber, Modifier::kIsNan}
      .Has(relation);
}

bool CompareFloats(Modifier relation, uint64_t a, uint64_t b, const Format& format, bool flush) {
  const Number left = Unpack(flush ? Flush(a, format) : a, format);
  const Number right = Unpack(flush ? Flush(b, format) : b, format);
  const bool ordered = !left.IsNan() && !right.IsNan();
  if (relation == Modifier::kIsNumber) return ordered;
  if (relation == Modifier::kIsNan) return !ordered;
  const Modifier with_nan = Ordered(relation);
  if (!ordered) return with_nan != Modifier::kUnknown;
  return *Holds(with_nan != Modifier::kUnknown ? with_nan : relation, Compare(left, right));
}

std::optional<Operation> Test(const Words& w) {
  const Format* format = FormatOf(w.types[0]);
  if (w.modifiers.size() != 2 || format == nullptr) return std::nullopt;
  Operation operation;
  operation.result_bits = 1;
  operation.operand_bits = {format->bits};
  const Modifier what = w.modifiers[0];
  operation.compute = [=](const Operands& in) -> uint64_t {
    const Number number = Unpack(in[0], *format);
    if (what == Modifier::kNotanumber) return number.IsNan();
    if (what == Modifier::kNumber) return !number.IsNan();
    if (what == Modifier::kInfinite) return number.IsInfinite();
    if (what == Modifier::kFinite) return !number.IsInfinite() && !number.IsNan();
    if (what == Modifier::kSubnormal) return IsSubnormal(in[0], *format);
    // In PTX, "normal" is true for zeros.
    return number.kind == Number::Kind::kFinite && !IsSubnormal(in[0], *format);
  };
  return operation;
}

}  // namespace

std::optional<Operation> CompareOperation(const Words& w) {
  if (w.op == Opcode::kTestp) return Test(w);
  if (w.op != Opcode::kSetp) return std::nullopt;
  const Type type = w.types.back();
  const Format* format = FormatOf(type);
  const Modifier relation = w.modifiers[0];
  Operation operation;
  operation.result_bits = 1;
  if (format != nullptr) {
    const bool flush = w.Has(Modifier::kFtz);
    const bool known = IsOfFloats(relation) || Ordered(relation) != Modifier::kUnknown;
    if (!known) return std::nullopt;
    operation.operand_bits = {format->bits, format->bits};
    operation.compute = [=](const Operands& in) -> uint64_t {
      return CompareFloats(relation, in[0], in[1], *format, flush);
    };
    return operation;
  }
  if (!Holds(relation, 0)) return std::nullopt;
  const int bits = BitsOf(type);
  const bool is_signed = IsSigned(type);
  operation.operand_bits = {bits, bits};
  operation.compute = [=](const Operands& in) -> uint64_t {
    const int64_t a = SignExtend(in[0], bits), b = SignExtend(in[1], bits);
    const int order = is_signed ? (a > b) - (a < b) : (in[0] > in[1]) - (in[0] < in[1]);
    return *Holds(relation, order);
  };
  return operation;
}

}  // namespace cupel::reference
