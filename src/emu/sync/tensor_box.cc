// Tested by tensor_box_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/tensor_box.h"

#include <algorithm>

namespace cupel::emu {
namespace {

using plan::Interleave;
using plan::OobFill;
using plan::Swizzle;
using plan::TensorMap;
using plan::TensorMapType;

constexpr uint32_t kPieceBytes = 16;  // swizzling exchanges pieces of this size

uint32_t ElementBytes(const TensorMap& map) {
  return static_cast<uint32_t>(plan::BitsOf(map.type)) / 8;
}

/// Elements of the box in shared memory along dimension `d`.
uint32_t Extent(const TensorMap& map, int d) {
  const auto i = static_cast<size_t>(d);
  const uint32_t step = std::max(map.element_strides[i], 1u);
  return d == 0 ? map.box[i] : (map.box[i] + step - 1) / step;
}

/// The address after swizzling, which exchanges the pieces of a row by the number of the row.
uint32_t Swizzled(Swizzle swizzle, uint32_t address) {
  const uint32_t mask = swizzle == Swizzle::k128B ? 7 : swizzle == Swizzle::k64B ? 3 : 1;
  return swizzle == Swizzle::kNone ? address : address ^ (address >> 7 & mask) << 4;
}

/// Collects the pieces of a copy, row by row. A row is contiguous in both memories.
class Rows {
 public:
  Rows(const plan::EncodedTensorMap& tensor, uint32_t shared)
      : map_(tensor.map), base_(tensor.address), shared_(shared), bytes_(ElementBytes(map_)) {}

  /// `count` elements along dimension 0, from coordinates `at`. `step` is their distance.
  void Add(const std::array<int64_t, plan::kMaxTensorMapRank>& at, uint32_t count) {
    bool is_inside = true;
    uint64_t address = base_;
    for (int d = 1; d < map_.rank; ++d) {
      const auto i = static_cast<size_t>(d);
      is_inside = is_inside && at[i] >= 0 && static_cast<uint64_t>(at[i]) < map_.dims[i];
      address += static_cast<uint64_t>(at[i]) * map_.strides[i - 1];
    }
    // Elements before, inside and after the tensor.
    const auto size = static_cast<int64_t>(map_.dims[0]);
    const int64_t end = at[0] + count;
    const int64_t low = is_inside ? std::clamp(int64_t{0}, at[0], end) : end;
    const int64_t high = is_inside ? std::clamp(size, low, end) : end;
    Append(0, static_cast<uint32_t>(low - at[0]), false);
    Append(address + static_cast<uint64_t>(low) * bytes_, static_cast<uint32_t>(high - low), true);
    Append(0, static_cast<uint32_t>(end - high), false);
  }

  std::vector<TensorPiece> Take() { return std::move(pieces_); }

 private:
  void Append(uint64_t global, uint32_t count, bool is_inside) {
    uint32_t rest = count * bytes_;
    while (rest != 0) {
      const uint32_t to_end = kPieceBytes - shared_ % kPieceBytes;
      const uint32_t bytes = map_.swizzle == Swizzle::kNone ? rest : std::min(rest, to_end);
      pieces_.push_back({global, Swizzled(map_.swizzle, shared_), bytes, is_inside});
      shared_ += bytes;
      global += bytes;
      rest -= bytes;
    }
  }

  const TensorMap& map_;
  uint64_t base_;
  uint32_t shared_;  // before swizzling: of the next element
  uint32_t bytes_;
  std::vector<TensorPiece> pieces_;
};

void AddTile(const TensorMap& map, const TensorBox& box, Rows* rows) {
  std::array<uint32_t, plan::kMaxTensorMapRank> index{};
  for (;;) {
    std::array<int64_t, plan::kMaxTensorMapRank> at{};
    for (int d = 0; d < map.rank; ++d) {
      const auto i = static_cast<size_t>(d);
      at[i] = int64_t{box.at[i]} + int64_t{index[i]} * std::max(map.element_strides[i], 1u);
    }
    rows->Add(at, map.box[0]);
    int d = 1;
    for (; d < map.rank && ++index[static_cast<size_t>(d)] == Extent(map, d); ++d) {
      index[static_cast<size_t>(d)] = 0;
    }
    if (d >= map.rank) return;
  }
}

/// Dimensions are C, W (, H (, D)) and N. Pixels are visited in the order of a convolution's
/// output: within the bounding box, W fastest.
void AddPixels(const TensorMap& map, const TensorBox& box, Rows* rows) {
  const auto spatial = static_cast<size_t>(map.rank - 2);
  std::array<int64_t, plan::kMaxTensorMapRank> pixel{};
  for (size_t i = 0; i < static_cast<size_t>(map.rank); ++i) pixel[i] = box.at[i];
  for (uint32_t p = 0; p < map.pixels; ++p) {
    std::array<int64_t, plan::kMaxTensorMapRank> at = pixel;
    if (box.mode == TensorMode::kIm2col) {
      for (size_t i = 0; i < spatial; ++i) at[i + 1] += box.offsets[i];
    }
    rows->Add(at, map.channels);
    size_t i = 0;
    for (; i < spatial; ++i) {
      pixel[i + 1] += std::max(map.element_strides[i + 1], 1u);
      if (pixel[i + 1] < static_cast<int64_t>(map.dims[i + 1]) + map.upper[i]) break;
      pixel[i + 1] = map.lower[i];
    }
    if (i == spatial) ++pixel[spatial + 1];
  }
}

}  // namespace

std::string UnsupportedBox(const TensorMap& map, TensorMode mode) {
  if (plan::BitsOf(map.type) % 8 != 0) return "tensor maps with packed elements";
  if (map.interleave != Interleave::kNone) return "tensor maps with an interleaved layout";
  if (map.swizzle > Swizzle::k128B) return "tensor maps with a swizzle of larger atoms";
  (void)mode;
  return {};
}

uint64_t BoxBytes(const TensorMap& map) {
  uint64_t elements = 1;
  if (map.im2col) {
    elements = uint64_t{map.channels} * map.pixels;
  } else {
    for (int d = 0; d < map.rank; ++d) elements *= Extent(map, d);
  }
  return elements * ElementBytes(map);
}

std::vector<TensorPiece> PiecesOf(const plan::EncodedTensorMap& tensor, const TensorBox& box,
                                  uint32_t shared) {
  Rows rows(tensor, shared);
  if (tensor.map.im2col) {
    AddPixels(tensor.map, box, &rows);
  } else {
    AddTile(tensor.map, box, &rows);
  }
  return rows.Take();
}

uint64_t FillOf(const TensorMap& map) {
  if (map.fill == OobFill::kZero) return 0;
  switch (map.type) {
    case TensorMapType::kF16:
    case TensorMapType::kBF16:
      return 0x7fff7fff7fff7fffu;
    case TensorMapType::kF64:
      return 0x7fffffffffffffffu;
    default:
      return 0x7fffffff7fffffffu;
  }
}

}  // namespace cupel::emu
