// wgmma.mma_async: 64 rows of A times up to 256 columns of B, by the 128 threads of a warpgroup;
// and mma.m16n8: 16 rows times 8 columns in the registers of a warp. A may be sparse. All products
// are added exactly and rounded once, so the results of programs must not depend on the order and
// precision of the sum, which PTX leaves open. SPDX-License-Identifier: Apache-2.0
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

constexpr size_t kWarp = 32, kGroup = 128;

int ElementBits(Type type) {
  switch (type) {
    case Type::kB1:
      return 1;
    case Type::kS4:
    case Type::kU4:
      return 4;
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
    case Type::kS4:
    case Type::kS8: {
      const int64_t value = SignExtend(bits, ElementBits(type));
      return Number::Integer(value < 0, static_cast<uint64_t>(value < 0 ? -value : value));
    }
    case Type::kU4:
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

/// The elements of a fragment: registers of 32 bits, each with neighbours along k. The registers of
/// A alternate between two halves of the rows.
std::vector<Number> Fragment(const std::vector<std::vector<uint64_t>>& registers, Type type,
                             size_t lines, size_t k, bool is_left) {
  std::vector<Number> values(lines * k);
  const auto bits = static_cast<size_t>(ElementBits(type)), per = 32 / bits;
  for (size_t t = 0; t < registers.size(); ++t) {
    for (size_t i = 0; i < registers[t].size() * per; ++i) {
      const size_t reg = i / per, step = is_left ? reg / 2 : reg;
      const size_t line = t / 32 * 16 + t % 32 / 4 + (is_left ? reg % 2 * 8 : 0);
      const size_t column = step * 4 * per + t % 4 * per + i % per;
      const uint64_t value =
          Truncate(registers[t][reg] >> (i % per * bits), static_cast<int>(bits));
      values.at(line * k + column) = ValueOf(type, value);
    }
  }
  return values;
}

/// The dense rows of a sparse A with half of the columns (PTX ISA, "Sparse matrix storage"). A
/// chunk of four elements (of 4 bits: of four pairs; of 32 bits: of two elements, each counted as
/// two) has 4 bits of metadata.
std::vector<Number> Dense(const std::vector<Number>& sparse, Type type, size_t rows, size_t k,
                          const std::vector<uint64_t>& metadata, uint64_t selector) {
  const auto bits = static_cast<size_t>(ElementBits(type));
  const size_t chunk = bits == 4 ? 8 : (bits == 32 ? 2 : 4), chunks = k / chunk;
  std::vector<Number> dense(rows * k, Number::Zero(false));
  for (size_t row = 0; row < rows; ++row) {
    const size_t quad = row / 16 * 32 + row % 8 * 4, half = row % 16 / 8;
    for (size_t c = 0; c < chunks; ++c) {
      size_t thread = quad, shift = 0;
      if (bits >= 16) {  // a word has four chunks of two rows
        thread += chunks == 4 ? selector : selector * 2 + c / 4;
        shift = half * 16 + c % 4 * 4;
      } else {  // a word has eight chunks of one row
        thread += (chunks == 8 ? selector : c / 8) * 2 + half;
        shift = c % 8 * 4;
      }
      const uint64_t pair = metadata[thread] >> shift & 15;
      for (size_t i = 0; i < chunk / 2; ++i) {
        size_t to = 0;
        if (bits == 32) {
          to = pair == 4 ? 0 : 1;
        } else if (bits == 4) {
          to = (i < 2 ? pair & 3 : pair >> 2) * 2 + i % 2;
        } else {
          to = i == 0 ? pair & 3 : pair >> 2;
        }
        dense[row * k + c * chunk + to] = sparse[row * (k / 2) + c * (chunk / 2) + i];
      }
    }
  }
  return dense;
}

}  // namespace

/// Executes a product for which all threads of a warp or a warpgroup wait.
bool Machine::ResolveProducts(Block& block) {
  for (size_t first = 0; first < block.threads.size(); first += kWarp) {
    const Thread& head = block.threads[first];
    if (head.status != Status::kProduct) continue;
    const size_t count = head.instr().op == ptx::Opcode::kMma ? kWarp : kGroup;
    if (first % count != 0 || first + count > block.threads.size()) continue;
    std::vector<Thread*> threads;
    for (size_t t = first; t < first + count; ++t) threads.push_back(&block.threads[t]);
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

/// wgmma: d, a, b[, metadata, selector], scale-d[, scale-a, scale-b[, transpose-a][, transpose-b]]
/// mma: d, a, b, c[, metadata, selector]
void Machine::Multiply(Block& block, const std::vector<Thread*>& threads) {
  const Instr& instr = threads[0]->instr();
  const ptx::Types types = instr.Types();
  const size_t n = instr.shape.n, k = instr.shape.k;
  const Type type_d = types[0], type_a = types[1], type_b = types[2];
  const bool is_integer = type_d == Type::kS32,
             in_registers = instr.operands[1].kind == OperandKind::kVector;
  const bool is_warp = instr.op == ptx::Opcode::kMma;
  const bool is_sparse = instr.modifiers.HasAny({Modifier::kSp, Modifier::kSpOrderedMetadata});
  const size_t rows = threads.size() / 2, columns_of_a = is_sparse ? k / 2 : k;
  const size_t of_scale = is_sparse ? 5 : 3, of_metadata = is_warp ? 4 : 3;
  const size_t count = instr.operands.size();
  auto option = [&](size_t i) {
    if (is_warp || of_scale + i >= count) return int64_t{0};
    return SignExtend(Read(block, *threads[0], instr.operands[of_scale + i], 64), 64);
  };
  const bool negates = !is_integer && option(1) * option(2) < 0;
  const bool transposes_a = !in_registers && option(3) != 0;
  const bool transposes_b = option(in_registers ? 3 : 4) != 0;

  auto load = [&](const Operand& operand, bool transposed, Type type, size_t lines,
                  size_t columns) {
    const auto bits = static_cast<uint64_t>(ElementBits(type));
    const Layout layout(Read(block, *threads[0], operand, 64), transposed);
    std::vector<Number> values;
    for (uint64_t i = 0; i < lines * columns; ++i) {
      const uint64_t size = std::max<uint64_t>(bits / 8, 1);
      const Place place{Space::kShared, layout.At(i / columns, i % columns, bits)};
      const std::byte* bytes = Bytes(block, *threads[0], place, size, size);
      uint64_t value = 0;
      if (bytes != nullptr) std::memcpy(&value, bytes, size);
      if (bits < 8) value = value >> (i % columns * bits % 8) & 1;
      values.push_back(ValueOf(type, value));
    }
    return values;
  };
  auto registers = [&](const Operand& operand) {
    std::vector<std::vector<uint64_t>> words;
    for (Thread* thread : threads) {
      std::vector<uint64_t>& own = words.emplace_back();
      for (const Operand& element : operand.elements) {
        own.push_back(Read(block, *thread, element, 32));
      }
    }
    return words;
  };
  const std::vector<Number> b = is_warp
                                    ? Fragment(registers(instr.operands[2]), type_b, n, k, false)
                                    : load(instr.operands[2], transposes_b, type_b, n, k);
  std::vector<Number> a =
      in_registers ? Fragment(registers(instr.operands[1]), type_a, rows, columns_of_a, true)
                   : load(instr.operands[1], transposes_a, type_a, rows, columns_of_a);
  if (is_sparse) {
    std::vector<uint64_t> metadata;
    for (Thread* thread : threads) {
      metadata.push_back(Read(block, *thread, instr.operands[of_metadata], 32));
    }
    a = Dense(a, type_a, rows, k, metadata, instr.operands[of_metadata + 1].bits);
  }

  const std::vector<Operand>& sums = instr.operands[0].elements;
  const bool is_half = type_d == Type::kF16;
  const size_t elements = n / 2;  // of D, in each thread
  if (sums.size() != (is_half ? elements / 2 : elements)) {
    Fail(threads[0], "wrong number of accumulators");
    return;
  }
  for (size_t t = 0; t < threads.size(); ++t) {
    Thread& thread = *threads[t];
    const bool accumulates = is_warp || Read(block, thread, instr.operands[of_scale], 1) != 0;
    std::vector<uint64_t> old;
    for (size_t i = 0; i < sums.size(); ++i) {
      old.push_back(Read(block, thread, is_warp ? instr.operands[3].elements[i] : sums[i], 32));
    }
    for (size_t i = 0; i < elements; ++i) {
      const Operand& place = sums[is_half ? i / 2 : i];
      const uint64_t word = old[is_half ? i / 2 : i];
      const int shift = is_half ? static_cast<int>(i % 2 * 16) : 0;
      Number sum = Number::Zero(false);
      if (accumulates && is_integer) {
        const int64_t start = SignExtend(word, 32);
        sum = Number::Integer(start < 0, static_cast<uint64_t>(start < 0 ? -start : start));
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
        const uint64_t kept = Read(block, thread, place, 32) & ~(uint64_t{0xffff} << shift);
        Write(thread, place, kept | bits << shift, 32, false);
      } else {
        Write(thread, place, Pack(sum, kF32, Rounding::kNearestEven), 32, false);
      }
    }
  }
}

}  // namespace cupel::reference
