// Tensor memory (sm_100a) and the operands of tcgen05, as micro-ops. Tensor memory has 128 lanes
// and 512 columns of 32 bits. An address has the lane in its upper half and the column in its lower
// one. Layouts: PTX ISA 9.0, "TensorCore 5th Generation Family Instructions"; where PTX has only
// pictures, CUTLASS (cute/atom/copy_traits_sm100.hpp, mma_traits_sm100_frag.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "emu/core/matrix.h"

namespace cupel::emu {

inline constexpr uint32_t kTensorLanes = 128;
inline constexpr uint32_t kTensorColumns = 512;
inline constexpr uint32_t kLeastTensorColumns = 32;  // of an allocation

struct TensorCell {
  uint32_t lane = 0, column = 0;
};
inline TensorCell TensorAddress(uint32_t address) { return {address >> 16, address & 0xffffu}; }

/// The shapes of tcgen05.ld and tcgen05.st.
enum class TensorShape : uint8_t { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };

/// What tcgen05.ld or st moves, packed into Op::flops. The op's list has the registers.
struct TensorAccess {
  TensorShape shape = TensorShape::k32x32b;
  uint32_t registers = 1;
  bool packs = false;  // .pack::16b, .unpack::16b: a register has the lower halves of two cells

  uint32_t lanes() const { return shape == TensorShape::k32x32b ? 32 : 16; }
  uint32_t Pack() const {
    return static_cast<uint32_t>(shape) | registers << 3 | uint32_t{packs} << 12;
  }
  static TensorAccess Unpack(uint32_t bits) {
    return {static_cast<TensorShape>(bits & 7u), bits >> 3 & 511u, (bits >> 12 & 1u) != 0};
  }
  /// Columns of 32 bits of each part; .16x32bx2 has two parts.
  uint32_t columns() const {
    const uint32_t words = shape == TensorShape::k16x64b || shape == TensorShape::k16x128b ||
                                   shape == TensorShape::k16x256b
                               ? 2 * registers
                               : registers;
    return packs ? 2 * words : words;
  }
  /// The cell of register `r` of thread `t`, relative to the address; with `packs`, the first of
  /// two neighbouring columns. `split`: distance in columns of the second part.
  TensorCell CellOf(uint32_t t, uint32_t r, uint32_t split) const {
    TensorCell cell;
    switch (shape) {
      case TensorShape::k32x32b:
        cell = {t, r};
        break;
      case TensorShape::k16x64b:
        cell = {t / 4 + t % 2 * 8, 2 * r + t / 2 % 2};
        break;
      case TensorShape::k16x128b:
        cell = {t / 4 + r % 2 * 8, r / 2 * 4 + t % 4};
        break;
      case TensorShape::k16x256b:
        cell = {t / 4 + r / 2 % 2 * 8, r / 4 * 8 + t % 4 * 2 + r % 2};
        break;
      case TensorShape::k16x32bx2:
        cell = {t % 16, r};
        break;
    }
    if (packs) cell.column *= 2;
    if (shape == TensorShape::k16x32bx2 && t >= 16) cell.column += split;
    return cell;
  }
};

/// The shapes of tcgen05.cp (Op::aux).
enum class TensorCopyShape : uint8_t {
  k128x256b,
  k4x256b,
  k128x128b,
  k64x128b0213,
  k64x128b0123,
  k32x128b
};

/// The kinds of tcgen05.mma.
enum class TensorKind : uint8_t { kF16, kTF32, kF8F6F4, kI8, kMxF8F6F4, kMxF4, kMxF4NvF4 };

/// What a product computes, packed into Op::aux.
struct TensorMultiply {
  TensorKind kind = TensorKind::kF16;
  uint32_t scales = 0;  // factors of a line of A or B; 0: none
  uint32_t shift = 0;   // D is multiplied by 2^-shift first

  uint32_t Pack() const { return static_cast<uint32_t>(kind) | scales << 4 | shift << 8; }
  static TensorMultiply Unpack(uint32_t bits) {
    return {static_cast<TensorKind>(bits & 15u), bits >> 4 & 15u, bits >> 8 & 15u};
  }
};

/// The operands of "@tcgen05.mma": indices into the op's list of slots; -1 in the list: not given.
enum TensorOperand : uint8_t {
  kTensorD,                             // address
  kTensorA,                             // descriptor (64 bits); -1: A is in tensor memory
  kTensorAMemory,                       // address
  kTensorB,                             // descriptor
  kTensorInstruction,                   // the instruction descriptor
  kTensorAccumulates,                   // predicate
  kTensorDisabled,                      // four words: lanes of D that stay as they are
  kTensorScaleA = kTensorDisabled + 4,  // address
  kTensorScaleB,                        // address
  kTensorOperands,
};

/// d = a * b + c. A and B are blocks of 8 lines of 16 bytes, [line][k]; floats of 6 and 4 bits have
/// been converted to e4m3. The elements of A and B can have factors: each line has `scales`, for
/// equal parts of k.
struct TensorProduct {
  MatrixType a = MatrixType::kF16, b = MatrixType::kF16, d = MatrixType::kF32;
  uint32_t lines = 128, columns = 8;  // of D
  uint32_t parts = 2;                 // blocks along k
  uint32_t scales = 0;                // 1, 2 or 4; 0: no factors
  bool negates = false, saturates = false, accumulates = false;
  uint32_t shift = 0;       // c is multiplied by 2^-shift
  uint32_t first_lane = 0;  // 64 lines are in lanes [0, 16) or [16, 32) of each 32
  const std::byte* left = nullptr;
  const std::byte* right = nullptr;
  const double* left_scales = nullptr;   // [line][part]
  const double* right_scales = nullptr;  // [column][part]
  uint32_t* cells = nullptr;             // of D's first column; a column has 128 words
  uint32_t disabled[4] = {};             // by lane

  /// The lane of the first of 16 lines.
  uint32_t LaneOf(uint32_t line) const {
    return lines == kTensorLanes ? line : first_lane + line * 2;
  }
};

}  // namespace cupel::emu
