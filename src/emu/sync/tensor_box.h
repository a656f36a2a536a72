// The elements that a tensor copy (cp.async.bulk.tensor) moves, and their places in shared memory.
// Sources: PTX ISA, "Tensors"; CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emu/core/bulk.h"
#include "plan/tensor_map.h"

namespace cupel::emu {

/// The operands of one copy. Coordinates begin with the innermost dimension.
struct TensorBox {
  TensorMode mode = TensorMode::kTile;
  std::array<int32_t, plan::kMaxTensorMapRank> at{};
  std::array<uint32_t, plan::kMaxTensorMapRank - 2> offsets{};  // im2col
};

/// Neighbouring bytes of a box, both in global and in shared memory.
struct TensorPiece {
  uint64_t global = 0;  // device address, if the piece is inside the tensor
  uint32_t shared = 0;  // offset in shared memory
  uint32_t bytes = 0;
  bool is_inside = false;
};

/// Why copies with this map are not supported; empty if they are.
std::string UnsupportedBox(const plan::TensorMap& map, TensorMode mode);
/// The bytes of a box in shared memory.
uint64_t BoxBytes(const plan::TensorMap& map);
/// The pieces of a box whose first element is at `shared` of shared memory. Their number is at most
/// BoxBytes; check that first.
std::vector<TensorPiece> PiecesOf(const plan::EncodedTensorMap& tensor, const TensorBox& box,
                                  uint32_t shared);
/// The bits of an element outside of the tensor, repeated to 64 bits.
uint64_t FillOf(const plan::TensorMap& map);

}  // namespace cupel::emu
