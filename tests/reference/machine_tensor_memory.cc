// tcgen05 of one block: tensor memory, its allocation, loads, stores and copies, and products. All
// end before the next instruction, and commits arrive at once. The layouts are tables of digits:
// the bits of a thread's number, and then of a register's, each move by lanes or by columns.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "machine_state.h"

namespace cupel::reference {

using ptx::Instr;
using ptx::Modifier;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr uint64_t kLanes = 128, kColumns = 512;

/// `count` values of a digit; each step moves by so many lanes and columns.
struct Digit {
  uint64_t count, lanes, columns;
};

struct Shape {
  std::vector<Digit> thread, reg;
};

/// `split`: columns to the second half of .16x32bx2.
Shape ShapeOf(const Instr& instr, uint64_t split) {
  constexpr uint64_t kMany = 1024;
  if (instr.Has(Modifier::k16x64b)) {
    return {{{2, 8, 0}, {2, 0, 1}, {8, 1, 0}}, {{kMany, 0, 2}}};
  }
  if (instr.Has(Modifier::k16x128b)) {
    return {{{4, 0, 1}, {8, 1, 0}}, {{2, 8, 0}, {kMany, 0, 4}}};
  }
  if (instr.Has(Modifier::k16x256b)) {
    return {{{4, 0, 2}, {8, 1, 0}}, {{2, 0, 1}, {2, 8, 0}, {kMany, 0, 8}}};
  }
  if (instr.Has(Modifier::k16x32bx2)) return {{{16, 1, 0}, {2, 0, split}}, {{kMany, 0, 1}}};
  return {{{32, 1, 0}}, {{kMany, 0, 1}}};
}

void Move(const std::vector<Digit>& digits, uint64_t number, uint64_t* lane, uint64_t* column) {
  for (const Digit& digit : digits) {
    *lane += number % digit.count * digit.lanes;
    *column += number % digit.count * digit.columns;
    number /= digit.count;
  }
}

/// How a matrix lies in shared memory (PTX ISA 9.0, "Shared memory descriptor").
struct Layout {
  uint64_t start, leading, stride, base, mode;
  uint64_t element;    // bytes
  bool is_transposed;  // the lines' direction is the contiguous one

  Layout(uint64_t descriptor, uint64_t bytes, bool transposed)
      : start(descriptor % 0x4000 * 16),
        leading((descriptor >> 16) % 0x4000 * 16),
        stride((descriptor >> 32) % 0x4000 * 16),
        base(descriptor >> 49 & 7),
        mode(descriptor >> 61),
        element(bytes),
        is_transposed(transposed) {}

  /// The address of the byte `byte` along k of a line.
  uint64_t At(uint64_t line, uint64_t byte) const {
    if (!is_transposed) return Swizzled(Plain(line, byte));
    const uint64_t k = byte / element;
    uint64_t at = start + byte % element;
    if (mode == 0) {
      const uint64_t row = 16 / element;
      return at + line % row * element + line / row * stride + k % 8 * 16 + k / 8 * leading;
    }
    const uint64_t row = Width() / element, lines = mode == 1 ? 4 : 8;
    at += line % row * element + line / row * leading + k % lines * Width() + k / lines * stride;
    return Swizzled(at);
  }

 private:
  uint64_t Width() const { return mode == 0 ? 16 : mode == 4 ? 64 : mode == 6 ? 32 : 128; }
  uint64_t Plain(uint64_t line, uint64_t byte) const {
    if (mode == 0) {
      return start + line % 8 * 16 + line / 8 * stride + byte % 16 + byte / 16 * leading;
    }
    return start + line % 8 * Width() + line / 8 * stride + byte;
  }
  uint64_t Swizzled(uint64_t at) const {
    const uint64_t row = at / 128 - base;
    if (mode == 1) return at ^ row % 4 * 32;
    return mode == 0 ? at : at ^ row % (Width() / 16) * 16;
  }
};

enum class Kind { kF16, kTf32, kF8, kI8, kF4 };

Kind KindOf(const Instr& instr) {
  return instr.Has(Modifier::kKindF16)                                            ? Kind::kF16
         : instr.Has(Modifier::kKindTf32)                                         ? Kind::kTf32
         : instr.Has(Modifier::kKindI8)                                           ? Kind::kI8
         : instr.modifiers.HasAny({Modifier::kKindMxf4, Modifier::kKindMxf4nvf4}) ? Kind::kF4
                                                                                  : Kind::kF8;
}

/// Bits of an element of A or B, without padding.
uint64_t BitsOfElement(Kind kind, uint64_t type) {
  if (kind == Kind::kF8) return type <= 1 ? 8 : type == 5 ? 4 : 6;
  return kind == Kind::kF16 ? 16 : kind == Kind::kTf32 ? 32 : kind == Kind::kF4 ? 4 : 8;
}
/// The bit of a line's element. Sixteen floats of 6 or 4 bits of f8f6f4 have 16 bytes.
uint64_t PositionOf(Kind kind, uint64_t type, uint64_t k) {
  const uint64_t bits = BitsOfElement(kind, type);
  return kind == Kind::kF8 ? k / 16 * 128 + k % 16 * bits : k * bits;
}

/// An element of A or B whose type has this number in the instruction descriptor.
Number ValueOf(Kind kind, uint64_t type, uint64_t bits) {
  switch (kind) {
    case Kind::kF16:
      return Unpack(bits, type == 0 ? kF16 : kBF16);
    case Kind::kTf32:
      return Unpack(bits >> 13, kTF32);
    case Kind::kF8:
      return Unpack(bits, type == 0   ? kE4M3
                          : type == 1 ? kE5M2
                          : type == 3 ? kE2M3
                          : type == 4 ? kE3M2
                                      : kE2M1);
    case Kind::kF4:
      return Unpack(bits, kE2M1);
    case Kind::kI8:
      break;
  }
  const int64_t value = type == 0 ? static_cast<int64_t>(bits) : SignExtend(bits, 8);
  return Number::Integer(value < 0, static_cast<uint64_t>(value < 0 ? -value : value));
}

/// The lane of a line of D, or of A.
uint64_t LaneOf(uint64_t line, uint64_t lines, uint64_t first) {
  return lines == kLanes ? line : line / 16 * 32 + line % 16 + first;
}

}  // namespace

uint32_t* Machine::TensorCell(Block& block, Thread& thread, uint64_t lane, uint64_t column) {
  const bool is_allocated = std::any_of(
      block.tensor_columns.begin(), block.tensor_columns.end(), [&](const auto& allocation) {
        return allocation.first <= column && column < allocation.first + allocation.second;
      });
  if (lane >= kLanes || !is_allocated) {
    Fail(&thread, "tensor memory that is not allocated");
    return nullptr;
  }
  block.tensor.resize(kLanes * kColumns);
  return &block.tensor[lane * kColumns + column];
}

/// Instructions of a whole warp.
void Machine::UseTensorMemory(Block& block, const std::vector<Thread*>& lanes) {
  Thread& first = *lanes.front();
  const Instr& instr = first.instr();
  const std::vector<Operand>& operands = instr.operands;
  if (instr.Has(Modifier::kAlloc)) {
    uint64_t column = 0;
    for (const auto& [begin, count] : block.tensor_columns) column = begin + count;
    const uint64_t count = Read(block, first, operands[1], 32);
    std::byte* to =
        Bytes(block, first, {Space::kShared, SharedAddress(block, first, operands[0])}, 4, 4);
    if (to == nullptr) return;
    if (column + count > kColumns) {
      Fail(&first, "no tensor memory left");
      return;
    }
    block.tensor_columns[column] = count;
    std::memcpy(to, &column, 4);
  } else if (instr.Has(Modifier::kDealloc)) {
    block.tensor_columns.erase(Read(block, first, operands[0], 32));
  } else if (instr.modifiers.HasAny({Modifier::kLd, Modifier::kSt})) {
    const bool store = instr.Has(Modifier::kSt), has_split = instr.Has(Modifier::k16x32bx2);
    const Operand& registers = operands[store ? operands.size() - 1 : 0];
    const size_t of_split = store ? 1 : 2;
    const Shape shape = ShapeOf(instr, has_split ? Read(block, first, operands[of_split], 32) : 0);
    const bool packs = instr.modifiers.HasAny({Modifier::kPack16b, Modifier::kUnpack16b});
    for (Thread* t : lanes) {
      const uint64_t address = SharedAddress(block, *t, operands[store ? 0 : 1]);
      for (size_t r = 0; r < registers.elements.size(); ++r) {
        // With packs, the columns of a table are pairs; the split is in columns.
        uint64_t lane = address >> 16, column = 0, split = 0;
        Move(shape.reg, r, &lane, &column);
        Move(shape.thread, t->number % 32, &lane, has_split ? &split : &column);
        column = (address & 0xffff) + column * (packs ? 2 : 1) + split;
        uint32_t* cell = TensorCell(block, *t, lane, column);
        uint32_t* next = packs ? TensorCell(block, *t, lane, column + 1) : cell;
        if (cell == nullptr || next == nullptr) return;
        const Operand& reg = registers.elements[r];
        if (store) {
          const auto word = static_cast<uint32_t>(Read(block, *t, reg, 32));
          *cell = packs ? word & 0xffffu : word;
          if (packs) *next = word >> 16;
        } else {
          Write(*t, reg, packs ? (*cell & 0xffffu) | (*next & 0xffffu) << 16 : *cell, 32, false);
        }
      }
    }
  }
}

/// tcgen05.cp [to], descriptor
bool Machine::CopyToTensorMemory(Block& block, Thread& thread, const Instr& instr) {
  const uint64_t to = SharedAddress(block, thread, instr.operands[0]);
  const Layout from(Read(block, thread, instr.operands[1], 64), 16, false);
  const bool is_wide = instr.modifiers.HasAny({Modifier::k128x256b, Modifier::k4x256b});
  const uint64_t lines = instr.Has(Modifier::k4x256b)    ? 4
                         : instr.Has(Modifier::k64x128b) ? 64
                         : instr.Has(Modifier::k32x128b) ? 32
                                                         : 128;
  for (uint64_t line = 0; line < lines; ++line) {
    std::vector<uint64_t> lanes = {line};
    if (lines == 4) lanes = {(to >> 16) + 32 * line};
    if (lines == 32) lanes = {line, line + 32, line + 64, line + 96};
    if (instr.Has(Modifier::kWarpx20213)) lanes = {line, line + 64};
    if (instr.Has(Modifier::kWarpx20123)) {
      const uint64_t first = line < 32 ? line : line + 32;
      lanes = {first, first + 32};
    }
    for (uint64_t word = 0; word < (is_wide ? 8u : 4u); ++word) {
      const std::byte* value =
          Bytes(block, thread, {Space::kShared, from.At(line, 4 * word)}, 4, 4);
      if (value == nullptr) return false;
      for (const uint64_t lane : lanes) {
        uint32_t* cell = TensorCell(block, thread, lane, (to & 0xffff) + word);
        if (cell == nullptr) return false;
        std::memcpy(cell, value, 4);
      }
    }
  }
  return true;
}

/// tcgen05.mma [d], a or [a], b, instruction[, {disabled}][, [scales of a], [scales of b]],
/// accumulates[, scale]
bool Machine::MultiplyInTensorMemory(Block& block, Thread& thread, const Instr& instr) {
  const std::vector<Operand>& operands = instr.operands;
  const auto word = static_cast<uint32_t>(Read(block, thread, operands[3], 32));
  const auto field = [&](int first, int bits) { return Truncate(word >> first, bits); };
  const Kind kind = KindOf(instr);
  const bool is_scaled = instr.Has(Modifier::kBlockScale);
  const uint64_t type_d = is_scaled ? 1 : field(4, 2), type_a = field(7, 3), type_b = field(10, 3);
  const uint64_t n = field(17, 6) * 8, m = field(24, 5) * 16;
  const uint64_t element = kind == Kind::kF16 ? 2 : kind == Kind::kTf32 ? 4 : 1;
  const uint64_t depth = kind == Kind::kF4 ? 64 : 32 / element;
  const bool negates = field(13, 1) != field(14, 1);
  const bool disables = operands[4].kind == OperandKind::kVector;
  const size_t of_predicate = is_scaled ? 6 : disables ? 5 : 4;
  const bool accumulates = Read(block, thread, operands[of_predicate], 1) != 0;
  const bool scales = operands.size() > of_predicate + 1;
  const uint64_t scale = scales ? Read(block, thread, operands.back(), 32) : 0;

  auto from_shared = [&](const Operand& operand, uint64_t type, uint64_t lines, bool transposed,
                         std::vector<Number>* values) {
    const Layout layout(Read(block, thread, operand, 64), element, transposed);
    for (uint64_t i = 0; i < lines * depth; ++i) {
      const uint64_t bits = BitsOfElement(kind, type), first = PositionOf(kind, type, i % depth);
      uint64_t value = 0;
      for (uint64_t byte = first / 8; byte * 8 < first + bits; ++byte) {
        const std::byte* at =
            Bytes(block, thread, {Space::kShared, layout.At(i / depth, byte)}, 1, 1);
        if (at == nullptr) return false;
        value |= static_cast<uint64_t>(*at) << (byte - first / 8) * 8;
      }
      values->push_back(ValueOf(kind, type, Truncate(value >> first % 8, static_cast<int>(bits))));
    }
    return true;
  };
  std::vector<Number> a, b;
  if (operands[1].kind == OperandKind::kAddress) {
    const uint64_t at = SharedAddress(block, thread, operands[1]);
    for (uint64_t i = 0; i < m * depth; ++i) {
      const uint64_t first = PositionOf(kind, type_a, i % depth);
      const uint32_t* cell =
          TensorCell(block, thread, LaneOf(i / depth, m, at >> 16), (at & 0xffff) + first / 32);
      if (cell == nullptr) return false;
      a.push_back(
          ValueOf(kind, type_a,
                  Truncate(*cell >> first % 32, static_cast<int>(BitsOfElement(kind, type_a)))));
    }
  } else if (!from_shared(operands[1], type_a, m, field(15, 1) != 0, &a)) {
    return false;
  }
  if (!from_shared(operands[2], type_b, n, field(16, 1) != 0, &b)) return false;

  if (is_scaled) {
    for (const bool left : {true, false}) {
      const uint64_t at = SharedAddress(block, thread, operands[left ? 4 : 5]) & 0xffff;
      const uint64_t first = left ? field(29, 2) : field(4, 2);
      const uint64_t count = instr.modifiers.HasAny({Modifier::kScaleVec4X, Modifier::kBlock16}) ? 4
                             : kind == Kind::kF4                                                 ? 2
                                                 : 1;
      std::vector<Number>& values = left ? a : b;
      for (uint64_t i = 0; i < values.size(); ++i) {
        const uint64_t line = i / depth, byte = first + i % depth * count / depth;
        const uint32_t* cell = TensorCell(block, thread, line % 32, at + line / 32);
        if (cell == nullptr) return false;
        const uint64_t bits = *cell >> 8 * byte & 0xff;
        Number factor = Number::Integer(false, 1);
        if (field(23, 1) != 0) {
          factor.exponent += static_cast<int>(bits) - 127;
        } else {
          factor = Unpack(bits, kE4M3);
        }
        values[i] = reference::Multiply(values[i], factor);
      }
    }
  }

  const uint64_t d = SharedAddress(block, thread, operands[0]);
  for (uint64_t i = 0; i < m; ++i) {
    const uint64_t lane = LaneOf(i, m, d >> 16);
    if (disables &&
        (Read(block, thread, operands[4].elements[lane / 32], 32) >> lane % 32 & 1) != 0) {
      continue;
    }
    for (uint64_t j = 0; j < n; ++j) {
      uint32_t* cell = TensorCell(block, thread, lane, (d & 0xffff) + j);
      if (cell == nullptr) return false;
      Number sum = Number::Zero(false);
      if (accumulates && type_d == 2) {
        const int64_t old = SignExtend(*cell, 32);
        sum = Number::Integer(old < 0, static_cast<uint64_t>(old < 0 ? -old : old));
      } else if (accumulates) {
        sum = type_d == 0 ? Unpack(*cell & 0xffffu, kF16) : Unpack(*cell, kF32);
        if (!sum.IsZero()) sum.exponent -= static_cast<int>(scale);
      }
      for (uint64_t k = 0; k < depth; ++k) {
        Number product = reference::Multiply(a[i * depth + k], b[j * depth + k]);
        product.negative ^= negates;
        sum = Add(sum, product, Rounding::kNearestEven);
      }
      if (type_d == 2) {
        const auto size = sum.exponent == 0 ? static_cast<int64_t>(sum.mantissa.word[0]) : 0;
        int64_t value = sum.negative ? -size : size;
        if (field(3, 1) != 0) value = std::clamp<int64_t>(value, INT32_MIN, INT32_MAX);
        *cell = static_cast<uint32_t>(value);
      } else {
        *cell = static_cast<uint32_t>(Pack(sum, type_d == 0 ? kF16 : kF32, Rounding::kNearestEven));
      }
    }
  }
  return true;
}

bool Machine::ExecuteTensorMemory(Block& block, Thread& thread, const Instr& instr) {
  if (instr.Has(Modifier::kCp)) return CopyToTensorMemory(block, thread, instr);
  if (instr.Has(Modifier::kMma)) return MultiplyInTensorMemory(block, thread, instr);
  if (instr.Has(Modifier::kCommit)) {
    return ArriveAt(block, thread, SharedAddress(block, thread, instr.operands[0]));
  }
  if (!instr.Has(Modifier::kSync)) return true;  // fences
  thread.status = Status::kWarp;
  return false;
}

}  // namespace cupel::reference
