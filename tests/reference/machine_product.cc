// wgmma.mma_async: 64 rows of A times up to 256 columns of B, by the 128 threads of a warpgroup.
// All products are added exactly and rounded once, so the results of programs must not depend on
// the order and precision of the sum, which PTX leaves open.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "machine_state.h"

namespace cupel::reference {

using ptx::Instr;
using ptx::Modifier;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

constexpr size_t kGroup = 128, kRows = 64;

int ElementBits(Type type) {
  switch (type) {
    case Type::kB1:
      return 1;
    case Type::kTF32:
      return 32;
    default:
      return BitsOf(type);
  }
}

/// The value of an element of A or B.
Number ValueOf(Type type, uint64_t bits) {
  switch (type) {
    case Type::kTF32:
      return Unpack(bits >> 13, kTF32);
    case Type::kE4M3:
      return Unpack(bits, kE4M3);
    case Type::kE5M2:
      return Unpack(bits, kE5M2);
    case Type::kS8: {
      const int64_t value = SignExtend(bits, 8);
      return Number::Integer(value < 0, static_cast<uint64_t>(value < 0 ? -value : value));
    }
    case Type::kU8:
    case Type::kB1:
      return Number::Integer(false, bits);
    default:
      return Unpack(bits, *FormatOf(type));
  }
}

/// How a matrix lies in shared memory (PTX ISA, "Matrix Descriptor").
struct Layout {
  uint64_t start, leading, stride, base, width;  // bytes; width of the swizzle, or 0
  bool is_transposed;  // the lines' direction is the contiguous one; elements have 16 bits

  Layout(uint64_t descriptor, bool transposed)
      : start((descriptor & 0x3fff) << 4),
        leading((descriptor >> 16 & 0x3fff) << 4),
        stride((descriptor >> 32 & 0x3fff) << 4),
        base(descriptor >> 49 & 7),
        width(std::array<uint64_t, 4>{0, 128, 64, 32}[descriptor >> 62]),
        is_transposed(transposed) {}

  /// The address of the byte that has element `k` of a line: a row of A or a column of B.
  uint64_t At(uint64_t line, uint64_t k, uint64_t bits) const {
    uint64_t at = start;
    if (is_transposed && width == 0) {
      at += line / 8 * stride + line % 8 * 2 + k / 8 * leading + k % 8 * 16;
    } else if (is_transposed) {
      at += line / (width / 2) * leading + line % (width / 2) * 2 + k / 8 * stride + k % 8 * width;
    } else {
      const uint64_t byte = k * bits / 8;
      at += line / 8 * stride;
      at += width == 0 ? line % 8 * 16 + byte / 16 * leading + byte % 16 : line % 8 * width + byte;
    }
    return width == 0 ? at : at ^ (((at >> 7) - base) & (width / 16 - 1)) << 4;
  }
};

/// The row and the column of an accumulator: element `i` of a thread's.
size_t RowOf(size_t thread, size_t i) { return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8; }
size_t ColumnOf(size_t thread, size_t i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

/// Sums of integers wrap, or saturate with .satfinite.
uint64_t PackInteger(const Number& sum, bool saturates) {
  const Number whole = sum.exponent == 0 ? sum : Number::Integer(false, 0);
  const auto size = static_cast<int64_t>(whole.mantissa.word[0]);
  int64_t value = whole.negative ? -size : size;
  if (saturates) value = std::clamp<int64_t>(value, INT32_MIN, INT32_MAX);
  return Truncate(static_cast<uint64_t>(value), 32);
}

}  // namespace

/// Executes a product for which all threads of a warpgroup wait.
bool Machine::ResolveProducts(Block& block) {
  for (size_t first = 0; first + kGroup <= block.threads.size(); first += kGroup) {
    std::vector<Thread*> threads;
    for (size_t t = first; t < first + kGroup; ++t) threads.push_back(&block.threads[t]);
    const bool is_ready = std::all_of(threads.begin(), threads.end(), [&](const Thread* t) {
      return t->status == Status::kProduct && &t->instr() == &threads[0]->instr();
    });
    if (!is_ready) continue;
    Multiply(block, threads);
    for (Thread* t : threads) {
      t->status = Status::kRunning;
      ++t->frame().pc;
    }
    return true;
  }
  return false;
}

/// d, a, b, scale-d[, scale-a, scale-b[, transpose-a][, transpose-b]]
void Machine::Multiply(Block& block, const std::vector<Thread*>& threads) {
  const Instr& instr = threads[0]->instr();
  const ptx::Types types = instr.Types();
  const size_t n = instr.shape.n, k = instr.shape.k;
  const Type type_d = types[0], type_a = types[1], type_b = types[2];
  const bool is_integer = type_d == Type::kS32,
             in_registers = instr.operands[1].kind == OperandKind::kVector;
  const size_t count = instr.operands.size();
  auto option = [&](size_t i) {
    return i < count ? SignExtend(Read(block, *threads[0], instr.operands[i], 64), 64) : 0;
  };
  const bool negates = !is_integer && option(4) * option(5) < 0;
  const bool transposes_a = !in_registers && option(6) != 0;
  const bool transposes_b = option(in_registers ? 6 : 7) != 0;

  auto load = [&](const Operand& operand, bool transposed, Type type, size_t lines) {
    const auto bits = static_cast<uint64_t>(ElementBits(type));
    const Layout layout(Read(block, *threads[0], operand, 64), transposed);
    std::vector<Number> values;
    for (uint64_t i = 0; i < lines * k; ++i) {
      const uint64_t size = std::max<uint64_t>(bits / 8, 1);
      const Place place{Space::kShared, layout.At(i / k, i % k, bits)};
      const std::byte* bytes = Bytes(block, *threads[0], place, size, size);
      uint64_t value = 0;
      if (bytes != nullptr) std::memcpy(&value, bytes, size);
      if (bits < 8) value = value >> (i % k * bits % 8) & 1;
      values.push_back(ValueOf(type, value));
    }
    return values;
  };
  std::vector<Number> a;
  const std::vector<Number> b = load(instr.operands[2], transposes_b, type_b, n);
  if (in_registers) {
    a.resize(kRows * k);
    const auto bits = static_cast<size_t>(ElementBits(type_a)), per = 32 / bits;
    for (size_t t = 0; t < kGroup; ++t) {
      for (size_t i = 0; i < 4 * per; ++i) {
        const size_t reg = i / per;
        const uint64_t word = Read(block, *threads[t], instr.operands[1].elements[reg], 32);
        const size_t row = t / 32 * 16 + t % 32 / 4 + reg % 2 * 8;
        const size_t column = reg / 2 * 4 * per + t % 4 * per + i % per;
        const uint64_t value = Truncate(word >> (i % per * bits), static_cast<int>(bits));
        a[row * k + column] = ValueOf(type_a, value);
      }
    }
  } else {
    a = load(instr.operands[1], transposes_a, type_a, kRows);
  }

  const std::vector<Operand>& sums = instr.operands[0].elements;
  const bool is_half = type_d == Type::kF16;
  const size_t elements = n / 2;  // of D, in each thread
  if (sums.size() != (is_half ? elements / 2 : elements)) {
    Fail(threads[0], "wrong number of accumulators");
    return;
  }
  for (size_t t = 0; t < kGroup; ++t) {
    Thread& thread = *threads[t];
    const bool accumulates = Read(block, thread, instr.operands[3], 1) != 0;
    for (size_t i = 0; i < elements; ++i) {
      const Operand& place = sums[is_half ? i / 2 : i];
      const uint64_t word = Read(block, thread, place, 32);
      const int shift = is_half ? static_cast<int>(i % 2 * 16) : 0;
      Number sum = Number::Zero(false);
      if (accumulates && is_integer) {
        const int64_t old = SignExtend(word, 32);
        sum = Number::Integer(old < 0, static_cast<uint64_t>(old < 0 ? -old : old));
      } else if (accumulates) {
        const Format& format = is_half ? kF16 : kF32;
        sum = Unpack(Truncate(word >> shift, format.bits), format);
      }
      const size_t row = RowOf(t, i) * k, column = ColumnOf(t, i) * k;
      for (size_t j = 0; j < k; ++j) {
        Number product = reference::Multiply(a[row + j], b[column + j]);
        product.negative ^= negates;
        sum = Add(sum, product, Rounding::kNearestEven);
      }
      if (is_integer) {
        Write(thread, place, PackInteger(sum, instr.Has(Modifier::kSatfinite)), 32, false);
      } else if (is_half) {
        const uint64_t bits = Pack(sum, kF16, Rounding::kNearestEven);
        const uint64_t kept = word & ~(uint64_t{0xffff} << shift);
        Write(thread, place, kept | bits << shift, 32, false);
      } else {
        Write(thread, place, Pack(sum, kF32, Rounding::kNearestEven), 32, false);
      }
    }
  }
}

}  // namespace cupel::reference
