// Comparisons: setp's result before it is combined with a predicate, and testp. set is a comparison
// that returns a value (machine.cc).
// SPDX-License-Identifier: Apache-2.0
#include "instruction.h"

namespace cupel::reference {
namespace {

using ptx::Type;

/// Whether a relation holds between integers, or numbers that are not NaN. `order` is -1, 0 or 1.
std::optional<bool> Holds(std::string_view relation, int order) {
  if (relation == "eq") return order == 0;
  if (relation == "ne") return order != 0;
  if (relation == "lt" || relation == "lo") return order < 0;
  if (relation == "le" || relation == "ls") return order <= 0;
  if (relation == "gt" || relation == "hi") return order > 0;
  if (relation == "ge" || relation == "hs") return order >= 0;
  return std::nullopt;
}

bool CompareFloats(const std::string& relation, uint64_t a, uint64_t b, const Format& format,
                   bool flush) {
  const Number left = Unpack(flush ? Flush(a, format) : a, format);
  const Number right = Unpack(flush ? Flush(b, format) : b, format);
  const bool ordered = !left.IsNan() && !right.IsNan();
  if (relation == "num") return ordered;
  if (relation == "nan") return !ordered;
  const bool with_nan = relation.size() == 3;  // equ, neu, ltu …: true for NaN
  if (!ordered) return with_nan;
  return *Holds(std::string_view(relation).substr(0, 2), Compare(left, right));
}

std::optional<Operation> Test(const Words& w) {
  const Format* format = FormatOf(w.types[0]);
  if (w.modifiers.size() != 2 || format == nullptr) return std::nullopt;
  Operation operation;
  operation.result_bits = 1;
  operation.operand_bits = {format->bits};
  const std::string what = w.modifiers[0];
  operation.compute = [=](const Operands& in) -> uint64_t {
    const Number number = Unpack(in[0], *format);
    if (what == "notanumber") return number.IsNan();
    if (what == "number") return !number.IsNan();
    if (what == "infinite") return number.IsInfinite();
    if (what == "finite") return !number.IsInfinite() && !number.IsNan();
    if (what == "subnormal") return IsSubnormal(in[0], *format);
    // In PTX, "normal" is true for zeros.
    return number.kind == Number::Kind::kFinite && !IsSubnormal(in[0], *format);
  };
  return operation;
}

}  // namespace

std::optional<Operation> CompareOperation(const Words& w) {
  if (w.op == "testp") return Test(w);
  if (w.op != "setp") return std::nullopt;
  const Type type = w.types.back();
  const Format* format = FormatOf(type);
  const std::string relation = w.modifiers[0];
  Operation operation;
  operation.result_bits = 1;
  if (format != nullptr) {
    const bool flush = w.Has("ftz");
    const bool known =
        relation == "num" || relation == "nan" ||
        (relation.size() == 3 && relation[2] == 'u' && Holds(relation.substr(0, 2), 0)) ||
        (relation.size() == 2 && Holds(relation, 0) && relation != "lo" && relation != "ls" &&
         relation != "hi" && relation != "hs");
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
