// Matrices in shared memory that wgmma and tcgen05 read, and wgmma as micro-ops. "@wgmma" issues a
// product: it checks the operands and the memory that they name. Each warp of a warpgroup computes
// its own 16 rows of the result: it reads blocks (matrix.h) of A and B from shared memory, at
// addresses that a matrix descriptor gives, and multiplies them like mma. Layouts: PTX ISA,
// "Asynchronous Warpgroup Level Matrix Shared Memory Layout".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cupel::emu {

/// A matrix in shared memory, as its 64-bit descriptor says.
struct MatrixDescriptor {
  static constexpr uint32_t kLargerAtom = 32;

  uint32_t start = 0;                // bytes
  uint32_t leading = 0, stride = 0;  // byte offsets; their meanings depend on the layout
  uint32_t base_offset = 0;          // phase of the swizzle pattern
  uint32_t swizzle = 0;              // bytes of a row: 128, 64, 32; 16: not swizzled
  uint32_t atom = 16;                // bytes that swizzling keeps together

  explicit MatrixDescriptor(uint64_t bits)
      : start(static_cast<uint32_t>(bits & 0x3fff) << 4),
        leading(static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4),
        base_offset(static_cast<uint32_t>(bits >> 49 & 7)),
        swizzle(16u << (4 - (bits >> 62)) % 4) {}
  /// A descriptor of tcgen05. It has one more swizzle, and is otherwise the same.
  static MatrixDescriptor OfTensorCore(uint64_t bits) {
    MatrixDescriptor matrix(bits);
    if (bits >> 61 == 1) {
      matrix.swizzle = 128;
      matrix.atom = kLargerAtom;
    }
    return matrix;
  }

  /// No byte of the first `lines` lines (a multiple of 8) of `depth` pieces is at this address or
  /// after it.
  uint32_t EndOf(uint32_t lines, bool transposed, uint32_t depth) const {
    const uint32_t groups = (lines - 1) / 8;
    uint32_t last = 0;
    if (swizzle == 16) {
      last = groups * stride + 7 * 16 + (depth - 1) * leading + 15;
    } else if (transposed) {
      last = (lines - 1) / (swizzle / 2) * leading + (depth - 1) * stride + 8 * swizzle - 1;
    } else {
      last = groups * stride + 7 * swizzle + 16 * depth - 1;
    }
    // Swizzling stays within 128 bytes.
    return ((start + last) | 127) + 1;
  }
  /// The address of `byte` (along k) of line `line` (along m or n). Neighbouring bytes are
  /// neighbours in memory within 16 bytes.
  uint32_t OfLines(uint32_t line, uint32_t byte) const {
    if (swizzle == 16) {
      return start + line / 8 * stride + line % 8 * 16 + byte / 16 * leading + byte % 16;
    }
    return Swizzled(start + line / 8 * stride + line % 8 * swizzle + byte);
  }
  /// The same for a transposed matrix of elements of `bytes` bytes: neighbouring lines are
  /// neighbours.
  uint32_t OfColumns(uint32_t line, uint32_t k, uint32_t bytes = 2) const {
    if (swizzle == 16) {
      const uint32_t row = 16 / bytes;  // elements
      return start + line / row * stride + line % row * bytes + k / 8 * leading + k % 8 * 16;
    }
    const uint32_t row = swizzle / bytes;
    const uint32_t rows = atom == kLargerAtom ? 4 : 8;  // of the pattern
    return Swizzled(start + line / row * leading + line % row * bytes + k / rows * stride +
                    k % rows * swizzle);
  }

 private:
  /// Exchanges the atoms of a row of up to 128 bytes, by the number of the row.
  uint32_t Swizzled(uint32_t address) const {
    return address ^ (((address >> 7) - base_offset) & (swizzle / atom - 1)) * atom;
  }
};

/// The operands of "@wgmma", packed into Op::flops. The op's list has the numbers of registers of
/// the accumulators and of A, and then the registers, each as -1 - number.
struct WarpgroupShape {
  uint32_t columns = 1;  // in blocks of 8
  bool transposes_a = false, transposes_b = false;
  bool is_sparse = false;

  /// The pieces of 16 bytes in a line of B.
  uint32_t depth_of_b() const { return is_sparse ? 4 : 2; }
  uint32_t Pack() const {
    return columns | uint32_t{transposes_a} << 8 | uint32_t{transposes_b} << 9 |
           uint32_t{is_sparse} << 10;
  }
  static WarpgroupShape Unpack(uint32_t bits) {
    return {bits & 255u, (bits >> 8 & 1u) != 0, (bits >> 9 & 1u) != 0, (bits >> 10 & 1u) != 0};
  }
};

/// Calls f(offsets, active) for the pieces of 16 bytes of lines [first, first + count) of a matrix,
/// at most 32 at a time, until it returns false. Both numbers are multiples of 8. A line has
/// `depth` pieces along k. A transposed matrix has 8 lines in a piece, and 8 * depth columns.
template <class F>
bool ForEachPiece(const MatrixDescriptor& matrix, uint32_t first, uint32_t count, bool transposed,
                  uint32_t depth, F f) {
  uint32_t offsets[32];
  for (uint32_t done = 0; done < depth * count;) {
    const uint32_t begin = done;
    for (; done < depth * count && done < begin + 32; ++done) {
      offsets[done - begin] =
          transposed ? matrix.OfColumns(first + done / (8 * depth) * 8, done % (8 * depth))
                     : matrix.OfLines(first + done / depth, done % depth * 16);
    }
    for (uint32_t i = done - begin; i < 32; ++i) offsets[i] = offsets[0];
    const uint32_t active = done - begin == 32 ? 0xffffffffu : (1u << (done - begin)) - 1;
    if (!f(offsets, active)) return false;
  }
  return true;
}

/// Which blocks of a matrix in shared memory "@wgmma.read" reads: `lines` blocks of 8 lines from
/// block `first`, each with `depth` blocks along k. The op's list has a slot for each.
struct WarpgroupRead {
  uint32_t lines = 1;       // at most 4
  uint32_t first = 0;       // at most 31
  bool of_left = false;     // A: counts from the warp's own 16 rows
  bool transposed = false;  // only for elements of 16 bits
  uint32_t depth = 2;       // or 4: B of a sparse product

  uint32_t Pack() const {
    return lines | first << 3 | uint32_t{of_left} << 8 | uint32_t{transposed} << 9 | depth << 10;
  }
  static WarpgroupRead Unpack(uint32_t bits) {
    return {bits & 7u, bits >> 3 & 31u, (bits >> 8 & 1u) != 0, (bits >> 9 & 1u) != 0,
            bits >> 10 & 7u};
  }
};

}  // namespace cupel::emu
