// The elements that a tensor copy (cp.async.bulk.tensor) moves, and their places in shared memory.
// Sources: PTX ISA, "Tensors"; CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.
// The places of interleaved layouts were measured on an H200.
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
std::string UnsupportedBox(const plan::TensorMap& map);
/// The rule that a copy breaks, which a GPU reports as an illegal instruction; empty if it breaks
/// none. PTX does not state these rules. They were measured on an H200 (driver 580).
std::string ProblemOf(const plan::TensorMap& map, const TensorBox& box, bool is_store);
/// The bytes that the elements of a box have, and the bytes of shared memory that it spans. With
/// swizzling, rows that are shorter than the swizzled span have gaps between them.
struct BoxSize {
  uint64_t bytes = 0, span = 0;
};
BoxSize SizeOf(const plan::TensorMap& map);
/// The pieces of a box whose first element is at `shared` of shared memory. Their number is at most
/// BoxSize::bytes; check that first. Stores end at a multiple of 16 bytes of a row: what is between
/// the end of the tensor and there is written too (measured on an H200).
std::vector<TensorPiece> PiecesOf(const plan::EncodedTensorMap& tensor, const TensorBox& box,
                                  uint32_t shared, bool is_store);
/// The bits of elements outside of the tensor (measured on an H200).
uint64_t FillOf(const plan::TensorMap& map);
/// True if loads round float32 to the nearest tf32, ties to even. Types "without subnormals" do not
/// change them (both measured on an H200).
bool RoundsToTf32(const plan::TensorMap& map);

}  // namespace cupel::emu
