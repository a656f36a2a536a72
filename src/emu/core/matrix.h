// Matrix instructions (mma, wmma, ldmatrix …) as micro-ops. Operands beyond an Op's five are in a
// list of slots (Code::lists). The shapes are packed into Op::flops.
//
// A fragment consists of blocks of 8 lines. In a block, lane l holds elements of line l / 4, from
// E * (l % 4). In order of lanes, a register's 128 bytes are thus an 8-line matrix, row by row. All
// layouts of mma.sync are such blocks in some order. PTX leaves wmma's fragments opaque. Here they
// are the same blocks, in the layout of sm_80 and later.
//
// Numerics: exact products are summed in double precision together with the accumulator, in
// ascending k, and rounded once to the result's type. Tensor cores align the products of a few k to
// their largest exponent, truncate, and round after each such step. Their last bits therefore
// differ (and differ between generations). mma of f64 is a chain of fused operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

enum class MatrixType : uint8_t {
  kF16,
  kBF16,
  kTF32,
  kF32,
  kF64,
  kE4M3,
  kE5M2,
  kS8,
  kU8,
  kS4,
  kU4,
  kB1,
  kS32,
};

constexpr uint32_t BitsOf(MatrixType type) {
  switch (type) {
    case MatrixType::kF16:
    case MatrixType::kBF16:
      return 16;
    case MatrixType::kE4M3:
    case MatrixType::kE5M2:
    case MatrixType::kS8:
    case MatrixType::kU8:
      return 8;
    case MatrixType::kS4:
    case MatrixType::kU4:
      return 4;
    case MatrixType::kB1:
      return 1;
    case MatrixType::kF64:
      return 64;
    default:
      return 32;
  }
}

/// Elements of one operand: an upper bound for all shapes of PTX but those of wgmma, whose B is
/// larger.
inline constexpr uint32_t kMostProductElements = 2048;

/// d = a * b + c. The list contains the slots of a [m][k], b [n][k], c [m][n][…] and d [m][n][…].
struct ProductShape {
  uint32_t m = 1, n = 1, k = 1;  // in blocks
  MatrixType a = MatrixType::kF16, b = MatrixType::kF16;
  MatrixType c = MatrixType::kF32, d = MatrixType::kF32;
  bool saturates = false;  // integers: clamps
  bool is_and = false;     // b1: and instead of xor

  uint32_t Pack() const {
    return m | n << 3 | k << 9 | static_cast<uint32_t>(a) << 12 | static_cast<uint32_t>(b) << 16 |
           static_cast<uint32_t>(c) << 20 | static_cast<uint32_t>(d) << 24 |
           uint32_t{saturates} << 28 | uint32_t{is_and} << 29;
  }
  static ProductShape Unpack(uint32_t bits) {
    ProductShape shape;
    shape.m = bits & 7u;
    shape.n = (bits >> 3) & 63u;
    shape.k = (bits >> 9) & 7u;
    shape.a = static_cast<MatrixType>((bits >> 12) & 15u);
    shape.b = static_cast<MatrixType>((bits >> 16) & 15u);
    shape.c = static_cast<MatrixType>((bits >> 20) & 15u);
    shape.d = static_cast<MatrixType>((bits >> 24) & 15u);
    shape.saturates = ((bits >> 28) & 1u) != 0;
    shape.is_and = ((bits >> 29) & 1u) != 0;
    return shape;
  }
};

/// Expands a sparse A (mma.sp), whose zeros then count like others: times an infinity they give
/// NaN, which a GPU does not compute. The list contains the slots of its 2 lines of `columns`
/// blocks, and then those of the dense fragment, which has twice as many. Of every four units of a
/// dense line, 4 bits of metadata name the two that A has.
struct SparseShape {
  uint32_t columns = 1;    // 1 or 2
  uint32_t unit = 2;       // bytes: two elements of 4 bits, half an element of 32
  bool is_paired = false;  // the two units are one element
  bool is_ordered = false;
  uint32_t selector = 0;  // which lanes of four hold the metadata

  uint32_t Pack() const {
    return columns | unit << 2 | uint32_t{is_paired} << 4 | uint32_t{is_ordered} << 5 |
           selector << 6;
  }
  static SparseShape Unpack(uint32_t bits) {
    return {bits & 3u, bits >> 2 & 3u, (bits >> 4 & 1u) != 0, (bits >> 5 & 1u) != 0, bits >> 6};
  }
  /// The number of valid selectors.
  uint32_t selectors() const { return 4 / (columns * (unit == 2 ? 1 : 2)); }
  /// The metadata of line `line` of the fragment for block `column` of A: 16 bits for each unit of
  /// two bytes, or 32. `words`: of all lanes.
  uint32_t MetadataOf(const uint32_t* words, uint32_t line, uint32_t column) const {
    const uint32_t quad = line % 8 * 4, half = line / 8;
    if (unit == 2) return words[quad + selector * columns + column] >> (16 * half) & 0xffffu;
    return words[quad + selector * 2 + column * 2 + half];
  }
};

/// wmma.load and wmma.store. The list contains slots by line block, column block, and in the block.
struct FragmentShape {
  uint32_t lines = 1, columns = 1;  // in blocks
  uint32_t bits = 16;               // of an element
  uint32_t elements = 2;            // of a lane in a block
  bool contiguous = true;           // a line's elements are neighbours in memory

  uint32_t bytes() const { return bits < 8 ? 1 : bits / 8; }
  uint32_t Pack() const {
    return lines | columns << 3 | bits << 6 | elements << 13 | uint32_t{contiguous} << 19;
  }
  static FragmentShape Unpack(uint32_t packed) {
    FragmentShape shape;
    shape.lines = packed & 7u;
    shape.columns = (packed >> 3) & 7u;
    shape.bits = (packed >> 6) & 127u;
    shape.elements = (packed >> 13) & 63u;
    shape.contiguous = ((packed >> 19) & 1u) != 0;
    return shape;
  }
};

/// The op's list of slots, as offsets in the frame.
inline const int32_t* ListOf(const Warp& warp, const Op* op) { return warp.lists + op->imm; }

/// For instructions that all lanes of a warp must execute together. Returns true if they do. If
/// false, the group waits for the others or an error was reported, and the caller returns null.
bool AllTogether(Warp& warp, const Op* op);

}  // namespace cupel::emu
