// Bulk copies as micro-ops ("@bulk"): the operands of cp.async.bulk, cp.reduce.async.bulk and their
// tensor forms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cupel::emu {

/// What a copy with .reduce does with the elements at its destination.
enum class Reduction : uint8_t { kNone, kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };
enum class ReductionType : uint8_t { kU32, kS32, kU64, kS64, kF16, kBF16, kF32, kF64 };

/// How a tensor copy selects elements.
enum class TensorMode : uint8_t { kTile, kIm2col, kIm2colNoOffsets };

/// Indices into the op's list of slots; -1 in the list: not given.
enum BulkOperand : uint8_t {
  kBulkTo,       // an address in shared memory (32 bits) or global memory; a tensor map's address
  kBulkFrom,     // likewise
  kBulkBytes,    // not for tensors
  kBulkBarrier,  // an address in shared memory; without it the copy belongs to a bulk group
  kBulkMask,     // multicast: the blocks of the cluster that get the data
  kBulkCoordinates,                     // up to 5
  kBulkOffsets = kBulkCoordinates + 5,  // im2col: up to 3
  kBulkOperands = kBulkOffsets + 3,
};

/// Packed into Op::flops.
struct BulkShape {
  bool to_shared = false, from_shared = false;
  bool is_tensor = false;
  uint32_t rank = 0;  // of the tensor
  TensorMode mode = TensorMode::kTile;
  Reduction reduction = Reduction::kNone;
  ReductionType type = ReductionType::kU32;

  uint32_t Pack() const {
    return uint32_t{to_shared} | uint32_t{from_shared} << 1 | uint32_t{is_tensor} << 2 | rank << 3 |
           static_cast<uint32_t>(mode) << 6 | static_cast<uint32_t>(reduction) << 8 |
           static_cast<uint32_t>(type) << 12;
  }
  static BulkShape Unpack(uint32_t bits) {
    BulkShape shape;
    shape.to_shared = (bits & 1u) != 0;
    shape.from_shared = (bits >> 1 & 1u) != 0;
    shape.is_tensor = (bits >> 2 & 1u) != 0;
    shape.rank = bits >> 3 & 7u;
    shape.mode = static_cast<TensorMode>(bits >> 6 & 3u);
    shape.reduction = static_cast<Reduction>(bits >> 8 & 15u);
    shape.type = static_cast<ReductionType>(bits >> 12 & 7u);
    return shape;
  }
};

}  // namespace cupel::emu
