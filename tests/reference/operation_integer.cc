// Integer arithmetic. Values are widened to 128 bits, and results are truncated.
// SPDX-License-Identifier: Apache-2.0
#include "instruction.h"

namespace cupel::reference {
namespace {

using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;
__extension__ using Int128 = __int128;

/// Reads the value of a signed or unsigned type of `bits` bits.
struct Reader {
  bool is_signed;
  int bits;
  Int128 operator()(uint64_t value) const {
    const uint64_t cut = Truncate(value, bits);
    return is_signed ? static_cast<Int128>(SignExtend(cut, bits)) : static_cast<Int128>(cut);
  }
};

uint64_t Cut(Int128 value, int bits) { return Truncate(static_cast<uint64_t>(value), bits); }

std::optional<Operation> Simple(const Words& w, Operation operation, Reader read) {
  const int bits = read.bits;
  auto binary = [&](auto f) {
    operation.operand_bits = {bits, bits};
    operation.compute = [=](const Operands& in) { return Cut(f(read(in[0]), read(in[1])), bits); };
    return operation;
  };
  auto unary = [&](auto f) {
    operation.operand_bits = {bits};
    operation.compute = [=](const Operands& in) { return Cut(f(read(in[0])), bits); };
    return operation;
  };
  if (w.op == Opcode::kAdd) return binary([](Int128 a, Int128 b) { return a + b; });
  if (w.op == Opcode::kSub) return binary([](Int128 a, Int128 b) { return a - b; });
  if (w.op == Opcode::kMin) return binary([](Int128 a, Int128 b) { return a < b ? a : b; });
  if (w.op == Opcode::kMax) return binary([](Int128 a, Int128 b) { return a > b ? a : b; });
  if (w.op == Opcode::kNeg && read.is_signed) return unary([](Int128 a) { return -a; });
  if (w.op == Opcode::kAbs && read.is_signed) return unary([](Int128 a) { return a < 0 ? -a : a; });
  if (w.op == Opcode::kDiv || w.op == Opcode::kRem) {
    const bool remainder = w.op == Opcode::kRem;
    binary([=](Int128 a, Int128 b) { return b == 0 ? 0 : (remainder ? a % b : a / b); });
    operation.is_undefined = [bits](const Operands& in) { return Truncate(in[1], bits) == 0; };
    return operation;
  }
  if (w.op == Opcode::kSad) {
    operation.operand_bits = {bits, bits, bits};
    operation.compute = [=](const Operands& in) {
      const Int128 a = read(in[0]), b = read(in[1]);
      return Cut(read(in[2]) + (a < b ? b - a : a - b), bits);
    };
    return operation;
  }
  return std::nullopt;
}

/// mul and mad with .lo, .hi or .wide.
std::optional<Operation> Product(const Words& w, Operation operation, Reader read) {
  const int bits = read.bits;
  const bool adds = w.op == Opcode::kMad;
  const bool wide = w.Has(Modifier::kWide), high = w.Has(Modifier::kHi);
  if (!wide && !high && !w.Has(Modifier::kLo)) return std::nullopt;
  if (wide && bits == 64) return std::nullopt;
  operation.result_bits = wide ? 2 * bits : bits;
  operation.operand_bits = {bits, bits};
  if (adds) operation.operand_bits.push_back(operation.result_bits);
  const int result = operation.result_bits;
  operation.compute = [=](const Operands& in) {
    uint64_t product = 0;
    if (bits == 64 && !read.is_signed) {
      const unsigned __int128 full = static_cast<unsigned __int128>(in[0]) * in[1];
      product = static_cast<uint64_t>(high ? full >> 64 : full);
    } else {
      const Int128 full = read(in[0]) * read(in[1]);
      product = static_cast<uint64_t>(high ? full >> bits : full);
    }
    return Truncate(product + (adds ? in[2] : 0), result);
  };
  return operation;
}

}  // namespace

std::optional<Operation> IntegerOperation(const Words& w) {
  if (w.types.size() != 1) return std::nullopt;
  const Type type = w.types[0];
  const bool unsigned_type = type == Type::kU16 || type == Type::kU32 || type == Type::kU64;
  if (!IsSigned(type) && !unsigned_type) return std::nullopt;
  const Reader read{IsSigned(type), BitsOf(type)};
  if (read.bits < 16) return std::nullopt;
  Operation operation;
  operation.result_bits = read.bits;
  operation.result_is_signed = read.is_signed;
  if (w.op == Opcode::kMul || w.op == Opcode::kMad) {
    return w.Only({Modifier::kLo, Modifier::kHi, Modifier::kWide}) ? Product(w, operation, read)
                                                                   : std::nullopt;
  }
  return w.modifiers.size() == 1 ? Simple(w, operation, read) : std::nullopt;
}

}  // namespace cupel::reference
