// Tested by tensor_box_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/tensor_box.h"

#include <algorithm>
#include <utility>

#include "base/round_up.h"

namespace cupel::emu {
namespace {

using plan::Interleave;
using plan::OobFill;
using plan::Swizzle;
using plan::TensorMap;
using plan::TensorMapType;

constexpr uint32_t kPieceBytes = 16;  // swizzling exchanges pieces of this size

/// Of an element of dimension 0. In an interleaved layout (NC/8HWC8, NC/16HWC16) that is a slice of
/// channels, whatever the type is.
uint32_t ElementBytes(const TensorMap& map) {
  if (map.interleave != Interleave::kNone) return map.interleave == Interleave::k16B ? 16 : 32;
  return static_cast<uint32_t>(plan::BitsOf(map.type)) / 8;
}

/// Elements of the box in shared memory along dimension `d`.
uint32_t Extent(const TensorMap& map, int d) {
  const auto i = static_cast<size_t>(d);
  const uint32_t step = std::max(map.element_strides[i], 1u);
  // The last dimension but one is the index of the slice. A box has one, whatever the map says.
  if (map.interleave != Interleave::kNone && d == map.rank - 2) return 1;
  return d == 0 ? map.box[i] : (map.box[i] + step - 1) / step;
}

/// The address after swizzling, which exchanges the pieces of a row by the number of the row.
uint32_t Swizzled(Swizzle swizzle, uint32_t address) {
  const uint32_t mask = swizzle == Swizzle::k128B ? 7 : swizzle == Swizzle::k64B ? 3 : 1;
  return swizzle == Swizzle::kNone ? address : address ^ (address >> 7 & mask) << 4;
}

/// The distance of rows in shared memory.
uint32_t Pitch(const TensorMap& map) {
  const uint32_t bytes = (map.im2col ? map.channels : map.box[0]) * ElementBytes(map);
  if (map.interleave != Interleave::kNone) return bytes;
  switch (map.swizzle) {
    case Swizzle::k32B:
      return 32;
    case Swizzle::k64B:
      return 64;
    case Swizzle::k128B:
      return 128;
    default:
      return bytes;
  }
}

/// Collects the pieces of a copy, row by row. A row is contiguous in both memories.
class Rows {
 public:
  Rows(const plan::EncodedTensorMap& tensor, uint32_t shared, bool is_store)
      : map_(tensor.map),
        base_(tensor.address),
        row_(shared),
        bytes_(ElementBytes(map_)),
        is_store_(is_store) {}

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
    auto size = static_cast<int64_t>(map_.dims[0]);
    if (is_store_) size = RoundUp<int64_t>(size * bytes_, kPieceBytes) / bytes_;
    const int64_t end = at[0] + count;
    const int64_t low = is_inside ? std::clamp(int64_t{0}, at[0], end) : end;
    const int64_t high = is_inside ? std::clamp(size, low, end) : end;
    shared_ = row_;
    row_ += Pitch(map_);
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
  uint32_t row_;         // before swizzling: of the next row
  uint32_t shared_ = 0;  // likewise, of the next element
  uint32_t bytes_;
  bool is_store_;
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
    if (i == spatial) pixel[spatial + 1] += std::max(map.element_strides[spatial + 1], 1u);
  }
}

}  // namespace

std::string UnsupportedBox(const TensorMap& map) {
  if (plan::BitsOf(map.type) % 8 != 0) return "tensor maps with packed elements";
  if (map.interleave != Interleave::kNone && map.im2col) {
    return "im2col tensor maps with an interleaved layout";
  }
  if (map.interleave != Interleave::kNone && map.element_strides[0] != 1) {
    return "tensor maps with an interleaved layout and a stride of their slices";
  }
  if (map.swizzle > Swizzle::k128B) return "tensor maps with a swizzle of larger atoms";
  return {};
}

std::string ProblemOf(const TensorMap& map, const TensorBox& box, bool is_store) {
  const int64_t first = int64_t{box.at[0]} * ElementBytes(map);
  if (first % kPieceBytes != 0) {
    return "The first coordinate of a tensor copy must be at a multiple of 16 bytes.";
  }
  if (!is_store) return {};
  for (int d = 0; d < map.rank; ++d) {
    if (box.at[static_cast<size_t>(d)] < 0) return "A tensor store has a negative coordinate.";
  }
  const bool exceeds =
      std::any_of(map.lower.begin(), map.lower.end(), [](int corner) { return corner < 0; }) ||
      std::any_of(map.upper.begin(), map.upper.end(), [](int corner) { return corner > 0; });
  if (map.im2col && exceeds) {
    return "The bounding box of an im2col store exceeds the tensor.";
  }
  return {};
}

BoxSize SizeOf(const TensorMap& map) {
  uint64_t rows = map.pixels;
  if (!map.im2col) {
    rows = 1;
    for (int d = 1; d < map.rank; ++d) rows *= Extent(map, d);
  }
  const uint64_t elements = map.im2col ? map.channels : map.box[0];
  return {rows * elements * ElementBytes(map), rows * Pitch(map)};
}

std::vector<TensorPiece> PiecesOf(const plan::EncodedTensorMap& tensor, const TensorBox& box,
                                  uint32_t shared, bool is_store) {
  Rows rows(tensor, shared, is_store);
  if (tensor.map.im2col) {
    AddPixels(tensor.map, box, &rows);
  } else {
    AddTile(tensor.map, box, &rows);
  }
  return rows.Take();
}

uint64_t FillOf(const TensorMap& map) {
  return map.fill == OobFill::kZero ? 0 : 0x7ff77ff77ff77ff7u;
}

bool RoundsToTf32(const TensorMap& map) {
  return map.type == TensorMapType::kTF32 || map.type == TensorMapType::kTF32Ftz;
}

}  // namespace cupel::emu
