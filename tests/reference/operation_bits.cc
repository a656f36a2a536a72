// Logic, shifts, fields, permutations, counts, dot products of bytes, moves and selections: bit by
// bit, as in PTX's pseudocode.
// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "instruction.h"

namespace cupel::reference {

Operation OperationOn(int result_bits, std::vector<int> operand_bits,
                      std::function<uint64_t(const Operands&)> compute) {
  Operation operation;
  operation.result_bits = result_bits;
  operation.operand_bits = std::move(operand_bits);
  operation.compute = std::move(compute);
  return operation;
}

namespace {

using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;

std::optional<Operation> Logic(const Words& w, int bits) {
  auto make = [&](int count, auto f) {
    return OperationOn(bits, std::vector<int>(static_cast<size_t>(count), bits),
                       [=](const Operands& in) { return Truncate(f(in[0], in[1]), bits); });
  };
  if (w.modifiers.size() != 1) return std::nullopt;
  if (w.op == Opcode::kAnd) return make(2, [](uint64_t a, uint64_t b) { return a & b; });
  if (w.op == Opcode::kOr) return make(2, [](uint64_t a, uint64_t b) { return a | b; });
  if (w.op == Opcode::kXor) return make(2, [](uint64_t a, uint64_t b) { return a ^ b; });
  if (w.op == Opcode::kNot) return make(1, [](uint64_t a, uint64_t) { return ~a; });
  if (w.op == Opcode::kMov) return make(1, [](uint64_t a, uint64_t) { return a; });
  if (w.op == Opcode::kCnot && bits > 1)
    return make(1, [](uint64_t a, uint64_t) { return a == 0; });
  return std::nullopt;
}

std::optional<Operation> Shift(const Words& w, int bits, bool arithmetic) {
  if (w.modifiers.size() != 1) return std::nullopt;
  const bool left = w.op == Opcode::kShl;
  return OperationOn(bits, {bits, 32}, [=](const Operands& in) {
    uint64_t value = in[0];
    const int count = in[1] > 64 ? 64 : static_cast<int>(in[1]);  // larger amounts are clamped
    const uint64_t sign = (value >> (bits - 1)) & 1u;
    for (int i = 0; i < count; ++i) {
      value =
          left ? Truncate(value << 1, bits) : (value >> 1) | (arithmetic ? sign << (bits - 1) : 0);
    }
    return value;
  });
}

/// bfe, bfi, bfind, brev, popc, clz.
std::optional<Operation> Field(const Words& w, int bits, bool is_signed) {
  // PTX limits positions and lengths to a byte. Of larger ones, GPUs use the low byte for 32 bits,
  // but not for 64.
  auto undefined_beyond_a_byte = [=](size_t position) {
    return [=](const Operands& in) {
      return bits == 64 && (in[position] > 255 || in[position + 1] > 255);
    };
  };
  if (w.op == Opcode::kBfe) {
    Operation operation = OperationOn(bits, {bits, 32, 32}, [=](const Operands& in) {
      const int position = static_cast<int>(in[1] & 0xffu),
                length = static_cast<int>(in[2] & 0xffu);
      const int last = std::min(position + length - 1, bits - 1);
      const bool fill = is_signed && length > 0 && ((in[0] >> last) & 1u) != 0;
      uint64_t result = 0;
      for (int i = 0; i < bits; ++i) {
        const bool inside = i < length && position + i < bits;
        const bool bit = inside ? ((in[0] >> (position + i)) & 1u) != 0 : fill;
        result |= uint64_t{bit} << i;
      }
      return result;
    });
    operation.is_undefined = undefined_beyond_a_byte(1);
    return operation;
  }
  if (w.op == Opcode::kBfi) {
    Operation operation = OperationOn(bits, {bits, bits, 32, 32}, [=](const Operands& in) {
      const int position = static_cast<int>(in[2] & 0xffu),
                length = static_cast<int>(in[3] & 0xffu);
      uint64_t result = in[1];
      for (int i = 0; i < length && position + i < bits; ++i) {
        const uint64_t at = uint64_t{1} << (position + i);
        result = ((in[0] >> i) & 1u) != 0 ? result | at : result & ~at;
      }
      return result;
    });
    operation.is_undefined = undefined_beyond_a_byte(2);
    return operation;
  }
  if (w.op == Opcode::kBfind) {
    const bool shift = w.Has(Modifier::kShiftamt);
    return OperationOn(32, {bits}, [=](const Operands& in) -> uint64_t {
      const bool negative = is_signed && ((in[0] >> (bits - 1)) & 1u) != 0;
      for (int i = bits - 1; i >= 0; --i) {
        if ((((in[0] >> i) & 1u) != 0) != negative) {
          return static_cast<uint64_t>(shift ? bits - 1 - i : i);
        }
      }
      return 0xffffffffu;
    });
  }
  if (w.op == Opcode::kBrev) {
    return OperationOn(bits, {bits}, [=](const Operands& in) {
      uint64_t result = 0;
      for (int i = 0; i < bits; ++i) result |= ((in[0] >> i) & 1u) << (bits - 1 - i);
      return result;
    });
  }
  if (w.op == Opcode::kPopc || w.op == Opcode::kClz) {
    const bool counts = w.op == Opcode::kPopc;
    return OperationOn(32, {bits}, [=](const Operands& in) {
      return static_cast<uint64_t>(counts ? std::popcount(in[0])
                                          : std::countl_zero(in[0]) - (64 - bits));
    });
  }
  return std::nullopt;
}

uint64_t FunnelShift(const Operands& in, bool left, bool clamp) {
  const uint64_t n = clamp ? std::min<uint64_t>(in[2], 32) : in[2] & 31u;
  const uint64_t a = in[0], b = in[1];
  if (left) return Truncate((b << n) | (n == 0 ? 0 : a >> (32 - n)), 32);
  return Truncate((n == 0 ? 0 : b << (32 - n)) | (a >> n), 32);
}

uint64_t Permute(const Operands& in) {
  const uint64_t both = in[1] << 32 | in[0];
  uint64_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint64_t selector = (in[2] >> (4 * i)) & 15u;
    uint64_t byte = (both >> (8 * (selector & 7u))) & 0xffu;
    if ((selector & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

uint64_t BitMask(const Operands& in, bool clamp) {
  const uint64_t start = clamp ? in[0] : in[0] & 31u;
  const uint64_t width = clamp ? in[1] : in[1] & 31u;
  uint64_t result = 0;
  for (uint64_t i = 0; i < 32; ++i) {
    if (i >= start && i - start < width) result |= uint64_t{1} << i;
  }
  return result;
}

uint64_t FindNthSet(const Operands& in) {
  const auto offset = static_cast<int32_t>(in[2]);
  const auto base = static_cast<int>(in[1]);
  if (offset == 0) return ((in[0] >> base) & 1u) != 0 ? in[1] : 0xffffffffu;
  const int step = offset > 0 ? 1 : -1;
  int64_t count = (offset > 0 ? int64_t{offset} : -int64_t{offset}) - 1;
  for (int position = base; position >= 0 && position < 32; position += step) {
    if (((in[0] >> position) & 1u) == 0) continue;
    if (count-- == 0) return static_cast<uint64_t>(position);
  }
  return 0xffffffffu;
}

/// dp4a, dp2a: the second factor's elements are bytes, the first one's `bits` wide.
uint64_t Dot(const Operands& in, int bits, bool a_signed, bool b_signed, int b_from) {
  int64_t sum = SignExtend(in[2], 32);
  for (int i = 0; i < 32 / bits; ++i) {
    const uint64_t a = Truncate(in[0] >> (bits * i), bits);
    const uint64_t b = Truncate(in[1] >> (8 * (i + b_from)), 8);
    sum += (a_signed ? SignExtend(a, bits) : static_cast<int64_t>(a)) *
           (b_signed ? SignExtend(b, 8) : static_cast<int64_t>(b));
  }
  return Truncate(static_cast<uint64_t>(sum), 32);
}

std::optional<Operation> Words32(const Words& w) {
  const bool clamp = w.Has(Modifier::kClamp);
  if (w.op == Opcode::kShf) {
    const bool left = w.Has(Modifier::kL);
    return OperationOn(32, {32, 32, 32},
                       [=](const Operands& in) { return FunnelShift(in, left, clamp); });
  }
  if (w.op == Opcode::kPrmt && w.modifiers.size() == 1)
    return OperationOn(32, {32, 32, 32}, &Permute);
  if (w.op == Opcode::kBmsk) {
    return OperationOn(32, {32, 32}, [=](const Operands& in) { return BitMask(in, clamp); });
  }
  if (w.op == Opcode::kFns) {
    Operation operation = OperationOn(32, {32, 32, 32}, &FindNthSet);
    // The smallest offset has no magnitude in 32 bits; GPUs then find nothing and return 0.
    operation.is_undefined = [](const Operands& in) { return in[1] > 31 || in[2] == 0x80000000; };
    operation.compute = [](const Operands& in) { return in[1] > 31 ? 0 : FindNthSet(in); };
    return operation;
  }
  if (w.op == Opcode::kLop3) {
    return OperationOn(32, {32, 32, 32, 32}, [](const Operands& in) {
      uint64_t result = 0;
      for (int i = 0; i < 32; ++i) {
        const uint64_t row =
            ((in[0] >> i) & 1u) << 2 | ((in[1] >> i) & 1u) << 1 | ((in[2] >> i) & 1u);
        result |= ((in[3] >> row) & 1u) << i;
      }
      return result;
    });
  }
  if (w.op == Opcode::kDp4a || w.op == Opcode::kDp2a) {
    const bool a = IsSigned(w.types[0]), b = w.types.size() > 1 && IsSigned(w.types[1]);
    const int bits = w.op == Opcode::kDp4a ? 8 : 16;
    const int from = w.Has(Modifier::kHi) ? 2 : 0;
    return OperationOn(32, {32, 32, 32},
                       [=](const Operands& in) { return Dot(in, bits, a, b, from); });
  }
  return std::nullopt;
}

}  // namespace

std::optional<Operation> BitOperation(const Words& w) {
  const Type type = w.types.back();
  const int bits = BitsOf(type);
  if (bits == 0 || bits == 8 || bits > 64) return std::nullopt;
  switch (w.op) {
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
    case Opcode::kNot:
    case Opcode::kCnot:
    case Opcode::kMov:
      return Logic(w, bits);
    default:
      break;
  }
  if (w.op == Opcode::kShl || w.op == Opcode::kShr)
    return Shift(w, bits, w.op == Opcode::kShr && IsSigned(type));
  if (w.op == Opcode::kSelp && w.modifiers.size() == 1) {
    return OperationOn(bits, {bits, bits, 1},
                       [](const Operands& in) { return in[2] ? in[0] : in[1]; });
  }
  if (w.op == Opcode::kSlct && w.types.size() == 2 && w.types[1] == Type::kS32 &&
      !w.Has(Modifier::kFtz)) {
    const int width = BitsOf(w.types[0]);
    return OperationOn(width, {width, width, 32}, [](const Operands& in) {
      return SignExtend(in[2], 32) >= 0 ? in[0] : in[1];
    });
  }
  if (bits == 16) return std::nullopt;
  if (w.Only({Modifier::kShiftamt}) && w.types.size() == 1) {
    std::optional<Operation> found = Field(w, bits, IsSigned(type));
    if (found) return found;
  }
  return bits == 32 && w.Only({Modifier::kL, Modifier::kR, Modifier::kClamp, Modifier::kWrap,
                               Modifier::kLo, Modifier::kHi})
             ? Words32(w)
             : std::nullopt;
}

}  // namespace cupel::reference
