// Compares the pieces of tensor copies with the place of each element by itself, and with what an
// H200 does where PTX is silent.
// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/tensor_box.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"

namespace cupel::emu {
namespace {

using plan::Swizzle;
using plan::TensorMap;
using plan::TensorMapType;

constexpr uint64_t kBase = 0x10000;
constexpr uint64_t kFilled = UINT64_MAX;

/// The source of each byte of shared memory; kFilled outside of the tensor.
using PieceBytes = std::map<uint32_t, uint64_t>;

PieceBytes PieceBytesOf(const TensorMap& map, const TensorBox& box, uint32_t shared,
                        bool is_store = false) {
  PieceBytes bytes;
  for (const TensorPiece& piece : PiecesOf({map, kBase}, box, shared, is_store)) {
    for (uint32_t i = 0; i < piece.bytes; ++i) {
      EXPECT_TRUE(
          bytes.emplace(piece.shared + i, piece.is_inside ? piece.global + i : kFilled).second)
          << "byte " << piece.shared + i << " is written twice";
    }
  }
  return bytes;
}

/// Element `column` of row `row` of a box, at coordinates `at` of the tensor.
void ExpectElement(const TensorMap& map, const std::vector<int64_t>& at, uint32_t row,
                   uint32_t column, uint32_t shared, const PieceBytes& bytes) {
  const auto size = static_cast<uint32_t>(plan::BitsOf(map.type) / 8);
  uint64_t global = kBase;
  bool is_inside = true;
  for (size_t d = 0; d < at.size(); ++d) {
    is_inside = is_inside && at[d] >= 0 && at[d] < static_cast<int64_t>(map.dims[d]);
    global += static_cast<uint64_t>(at[d]) * (d == 0 ? size : map.strides[d - 1]);
  }
  const uint32_t width = map.im2col ? map.channels : map.box[0];
  const uint32_t spans[] = {width * size, 32, 64, 128};
  uint32_t place = shared + row * spans[static_cast<size_t>(map.swizzle)] + column * size;
  if (map.swizzle == Swizzle::k32B) place ^= (place >> 7 & 1) << 4;
  if (map.swizzle == Swizzle::k64B) place ^= (place >> 7 & 3) << 4;
  if (map.swizzle == Swizzle::k128B) place ^= (place >> 7 & 7) << 4;
  for (uint32_t i = 0; i < size; ++i) {
    const auto found = bytes.find(place + i);
    ASSERT_NE(found, bytes.end()) << "row " << row << ", column " << column;
    ASSERT_EQ(found->second, is_inside ? global + i : kFilled)
        << "row " << row << ", column " << column;
  }
}

TEST(TensorBox, TilesFollowTheFormulaOfEachElement) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    TensorMap map;
    map.type = round % 2 == 0 ? TensorMapType::kBF16 : TensorMapType::kF32;
    const auto size = static_cast<uint32_t>(plan::BitsOf(map.type) / 8);
    map.rank = 1 + static_cast<int>(random.Below(4));
    map.swizzle = static_cast<Swizzle>(random.Below(4));
    const auto rank = static_cast<size_t>(map.rank);
    map.box[0] = 16u << random.Below(2);
    map.box[0] /= size;
    uint64_t stride = 0;
    for (size_t d = 0; d < rank; ++d) {
      map.dims[d] = 1 + random.Below(20);
      if (d > 0) {
        map.box[d] = static_cast<uint32_t>(1 + random.Below(5));
        map.strides[d - 1] = stride =
            stride == 0 ? (map.dims[0] * size + 15) / 16 * 16 : stride * map.dims[d - 1];
      }
      map.element_strides[d] = d == 0 ? 1 : static_cast<uint32_t>(1 + random.Below(3));
    }
    ASSERT_EQ(plan::ProblemOf(map), "");
    TensorBox box;
    for (size_t d = 0; d < rank; ++d) box.at[d] = static_cast<int32_t>(random.Below(16)) - 6;
    const uint32_t shared = static_cast<uint32_t>(random.Below(8)) * 128;
    const PieceBytes bytes = PieceBytesOf(map, box, shared);
    uint32_t rows = 1;
    std::vector<uint32_t> extents;
    for (size_t d = 1; d < rank; ++d) {
      extents.push_back((map.box[d] + map.element_strides[d] - 1) / map.element_strides[d]);
      rows *= extents.back();
    }
    EXPECT_EQ(bytes.size(), uint64_t{rows} * map.box[0] * size);
    EXPECT_EQ(bytes.size(), SizeOf(map).bytes);
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t column = 0; column < map.box[0]; ++column) {
        std::vector<int64_t> at = {int64_t{box.at[0]} + column};
        uint32_t rest = row;
        for (size_t d = 1; d < rank; ++d) {
          at.push_back(int64_t{box.at[d]} +
                       int64_t{rest % extents[d - 1]} * map.element_strides[d]);
          rest /= extents[d - 1];
        }
        ExpectElement(map, at, row, column, shared, bytes);
      }
    }
  }
}

TEST(TensorBox, PixelsWalkTheBoundingBox) {
  TensorMap map;
  map.type = TensorMapType::kF32;
  map.rank = 4;  // C, W, H, N
  map.im2col = true;
  map.dims = {8, 5, 4, 2};
  map.strides = {32, 160, 640};
  map.element_strides = {1, 2, 1, 1};
  map.lower = {-1, 0};
  map.upper = {-1, 1};
  map.channels = 4;
  map.pixels = 12;
  ASSERT_EQ(plan::ProblemOf(map), "");
  TensorBox box;
  box.mode = TensorMode::kIm2col;
  box.at = {4, 1, 3, 0};
  box.offsets = {2, 1};
  const PieceBytes bytes = PieceBytesOf(map, box, 0);
  // W takes 1, 3, then -1, 1, 3 of the next rows; H goes up to 4, then N grows.
  const std::vector<std::vector<int64_t>> pixels = {{1, 3, 0},  {3, 3, 0},  {-1, 4, 0}, {1, 4, 0},
                                                    {3, 4, 0},  {-1, 0, 1}, {1, 0, 1},  {3, 0, 1},
                                                    {-1, 1, 1}, {1, 1, 1},  {3, 1, 1},  {-1, 2, 1}};
  for (uint32_t p = 0; p < pixels.size(); ++p) {
    for (uint32_t c = 0; c < 4; ++c) {
      ExpectElement(map, {4 + c, pixels[p][0] + 2, pixels[p][1] + 1, pixels[p][2]}, p, c, 0, bytes);
    }
  }
}

TensorMap MapOf(TensorMapType type, uint64_t columns, uint32_t box_columns, Swizzle swizzle) {
  TensorMap map;
  map.type = type;
  map.rank = 2;
  map.dims = {columns, 8};
  map.strides = {256};
  map.box = {box_columns, 4};
  map.element_strides = {1, 1};
  map.swizzle = swizzle;
  return map;
}

TEST(TensorBox, ShortSwizzledRowsHaveThePitchOfTheSpan) {
  const TensorMap map = MapOf(TensorMapType::kF32, 64, 4, Swizzle::k64B);
  EXPECT_EQ(SizeOf(map).bytes, 64u);
  EXPECT_EQ(SizeOf(map).span, 256u);
  const PieceBytes bytes = PieceBytesOf(map, {}, 0);
  EXPECT_EQ(bytes.at(0), kBase);
  EXPECT_EQ(bytes.at(64), kBase + 256);
  EXPECT_EQ(bytes.at(144), kBase + 512) << "the third row begins at 128, in the second piece";
}

TEST(TensorBox, StoresEndAtAMultipleOf16Bytes) {
  const TensorMap map = MapOf(TensorMapType::kF32, 13, 32, Swizzle::kNone);
  EXPECT_EQ(PieceBytesOf(map, {}, 0).at(13 * 4), kFilled);
  const PieceBytes stored = PieceBytesOf(map, {}, 0, true);
  EXPECT_EQ(stored.at(15 * 4 + 3), kBase + 63);
  EXPECT_EQ(stored.at(16 * 4), kFilled);
}

TEST(TensorBox, InterleavedBoxesHaveSlicesAsElements) {
  TensorMap map;  // NC/8HWC8: 5 x 3 pixels, 4 slices, 2 images
  map.type = TensorMapType::kU16;
  map.rank = 4;
  map.dims = {5, 3, 4, 2};
  map.strides = {80, 240, 960};
  map.box = {8, 2, 7, 2};  // one slice, in spite of the 7
  map.element_strides = {1, 1, 1, 1};
  map.interleave = plan::Interleave::k16B;
  ASSERT_EQ(plan::ProblemOf(map), "");
  EXPECT_EQ(UnsupportedBox(map), "");
  EXPECT_EQ(SizeOf(map).bytes, 8u * 2 * 2 * 16);
  TensorBox box;
  box.at = {-1, 1, 2, 0};
  EXPECT_EQ(ProblemOf(map, box, false), "");
  const PieceBytes bytes = PieceBytesOf(map, box, 0);
  EXPECT_EQ(bytes.size(), 512u);
  EXPECT_EQ(bytes.at(0), kFilled);
  EXPECT_EQ(bytes.at(16), kBase + 80 + 480);
  EXPECT_EQ(bytes.at(6 * 16), kFilled) << "pixel 5 of 5";
  EXPECT_EQ(bytes.at(9 * 16 + 3), kBase + 160 + 480 + 3);
  EXPECT_EQ(bytes.at(17 * 16), kBase + 80 + 480 + 960);
}

TEST(TensorBox, NamesTheRulesThatCopiesBreak) {
  const TensorMap map = MapOf(TensorMapType::kBF16, 64, 32, Swizzle::kNone);
  TensorBox box;
  box.at = {-8, -1};
  EXPECT_EQ(ProblemOf(map, box, false), "");
  EXPECT_NE(ProblemOf(map, box, true), "") << "a store with negative coordinates";
  box.at = {4, 0};
  EXPECT_NE(ProblemOf(map, box, false), "") << "not a multiple of 16 bytes";
}

TEST(TensorBox, FillsAreZerosOrNans) {
  TensorMap map = MapOf(TensorMapType::kF16, 64, 32, Swizzle::kNone);
  EXPECT_EQ(FillOf(map), 0u);
  map.fill = plan::OobFill::kNan;
  EXPECT_EQ(FillOf(map), 0x7ff77ff77ff77ff7u);
}

}  // namespace
}  // namespace cupel::emu
