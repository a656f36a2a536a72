// SPDX-License-Identifier: Apache-2.0
#include "plan/tensor_map.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace cupel::plan {
namespace {

TensorMap Tiled() {
  TensorMap map;
  map.type = TensorMapType::kF16;
  map.rank = 2;
  map.dims = {1000, 77};
  map.strides = {2048};
  map.box = {64, 128};
  map.element_strides = {1, 1};
  map.swizzle = Swizzle::k128B;
  map.l2_promotion = L2Promotion::k256B;
  return map;
}

TensorMap Largest() {
  TensorMap map;
  map.type = TensorMapType::kU8;
  map.rank = 5;
  map.dims.fill(uint64_t{1} << 32);
  map.strides.fill((uint64_t{1} << 40) - 16);
  map.box = {256, 228, 4, 1, 1};
  map.element_strides.fill(8);
  return map;
}

TensorMap Im2col() {
  TensorMap map;
  map.type = TensorMapType::kBF16;
  map.rank = 4;
  map.im2col = true;
  map.dims = {64, 56, 40, 8};
  map.strides = {128, 7168, 286720};
  map.element_strides = {1, 2, 1, 1};
  map.lower = {-1, -128};
  map.upper = {1, 127};
  map.channels = 64;
  map.pixels = 1024;
  map.fill = OobFill::kNan;
  return map;
}

TEST(TensorMap, DecodesWhatItEncoded) {
  for (const TensorMap& map : {Tiled(), Largest(), Im2col()}) {
    EXPECT_EQ(ProblemOf(map), "");
    const auto decoded = DecodeTensorMap(EncodeTensorMap(map, 0xffff'9000'0000'1230));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->map, map);
    EXPECT_EQ(decoded->address, 0xffff'9000'0000'1230);
  }
}

TEST(TensorMap, DecodesNothingElse) {
  const auto good = EncodeTensorMap(Tiled(), 4096);
  EXPECT_FALSE(DecodeTensorMap(std::span(good).first(127)));
  for (size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= std::byte{1};
    const bool ignored = i >= 8 && i < 16;  // CUTLASS changes a bit there
    EXPECT_EQ(DecodeTensorMap(bad).has_value(), ignored) << i;
  }
  TensorMap invalid = Tiled();
  invalid.rank = 6;
  EXPECT_FALSE(DecodeTensorMap(EncodeTensorMap(invalid, 4096)));
}

struct BrokenRule {
  const char* name;
  void (*breaks)(TensorMap&);
};

TEST(TensorMap, NamesTheBrokenRule) {
  const BrokenRule tiled[] = {
      {"rank 0", [](TensorMap& m) { m.rank = 0; }},
      {"rank 6", [](TensorMap& m) { m.rank = 6; }},
      {"unknown type", [](TensorMap& m) { m.type = static_cast<TensorMapType>(16); }},
      {"unknown swizzle", [](TensorMap& m) { m.swizzle = static_cast<Swizzle>(7); }},
      {"empty dimension", [](TensorMap& m) { m.dims[1] = 0; }},
      {"dimension over 2^32", [](TensorMap& m) { m.dims[1] = (uint64_t{1} << 32) + 1; }},
      {"stride not a multiple of 16", [](TensorMap& m) { m.strides[0] = 2056; }},
      {"stride of 2^40", [](TensorMap& m) { m.strides[0] = uint64_t{1} << 40; }},
      {"empty box", [](TensorMap& m) { m.box[1] = 0; }},
      {"box over 256", [](TensorMap& m) { m.box[1] = 257; }},
      {"row of 8 bytes", [](TensorMap& m) { m.box[0] = 4; }},
      {"box over 228 KB",
       [](TensorMap& m) {
         m.rank = 3, m.dims[2] = 20, m.strides[1] = 2048 * 77, m.element_strides[2] = 1,
         m.box[2] = 15;
       }},
      {"row of 8 bytes with interleave",
       [](TensorMap& m) {
         m.rank = 3, m.dims[2] = m.box[2] = m.element_strides[2] = 1, m.strides[1] = 2048,
         m.box[0] = 4, m.interleave = Interleave::k16B;
       }},
      {"row longer than the swizzle", [](TensorMap& m) { m.swizzle = Swizzle::k64B; }},
      {"element stride 0", [](TensorMap& m) { m.element_strides[1] = 0; }},
      {"element stride 9", [](TensorMap& m) { m.element_strides[1] = 9; }},
      {"interleave of rank 2", [](TensorMap& m) { m.interleave = Interleave::k16B; }},
      {"interleave with a row of 8 bytes",
       [](TensorMap& m) {
         m = Im2col();
         m.interleave = Interleave::k16B;
         m.channels = 4;
       }},
      {"NaN of integers",
       [](TensorMap& m) {
         m.type = TensorMapType::kU16;
         m.fill = OobFill::kNan;
       }},
      {"values after the rank", [](TensorMap& m) { m.dims[2] = 1; }},
  };
  for (const BrokenRule& rule : tiled) {
    TensorMap map = Tiled();
    rule.breaks(map);
    EXPECT_NE(ProblemOf(map), "") << rule.name;
  }
  const BrokenRule im2col[] = {
      {"rank 2", [](TensorMap& m) { m.rank = 2; }},
      {"corner out of range", [](TensorMap& m) { m.lower[1] = -129; }},
      {"empty bounding box", [](TensorMap& m) { m.upper[0] = -57; }},
      {"257 channels", [](TensorMap& m) { m.channels = 257; }},
      {"1025 pixels", [](TensorMap& m) { m.pixels = 1025; }},
      {"128 KB per 1024 pixels", [](TensorMap& m) { m.channels = 128; }},
      {"2^31 positions", [](TensorMap& m) { m.dims[2] = (uint64_t{1} << 31) - 255; }},
      {"box", [](TensorMap& m) { m.box[0] = 64; }},
  };
  for (const BrokenRule& rule : im2col) {
    TensorMap map = Im2col();
    rule.breaks(map);
    EXPECT_NE(ProblemOf(map), "") << rule.name;
  }
}

TEST(TensorMap, Interleave32NeedsAlignment) {
  TensorMap map = Im2col();
  map.interleave = Interleave::k32B;
  EXPECT_EQ(ProblemOf(map), "");
  EXPECT_EQ(AlignmentOf(map), 32u);
  map.strides[0] = 144;
  EXPECT_NE(ProblemOf(map), "");
}

TEST(TensorMap, ZerosHaveTheLowestValues) {
  const std::array<std::byte, kTensorMapBytes> zeros{};
  EXPECT_FALSE(DecodeTensorMap(zeros));
  const EncodedTensorMap tensor = FieldsOfTensorMap(zeros);
  EXPECT_EQ(tensor.map.rank, 1);
  EXPECT_EQ(tensor.map.dims[0], 1u);
  EXPECT_EQ(tensor.map.element_strides[0], 1u);
  EXPECT_FALSE(tensor.map.im2col);
  std::string_view problem;
  EXPECT_FALSE(DecodeTensorMap(EncodeTensorMap(tensor.map, 0), &problem));
  EXPECT_NE(problem.find("multiple of 16 bytes"), problem.npos) << problem;
}

TEST(TensorMap, SurvivesRandomFields) {
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = EncodeTensorMap(i % 2 == 0 ? Tiled() : Im2col(), 4096);
    auto decoded = *DecodeTensorMap(bytes);
    auto* const raw = reinterpret_cast<unsigned char*>(&decoded.map);
    for (int k = 0; k < 3; ++k) {
      const size_t at = random.Below(sizeof decoded.map);
      if (at == offsetof(TensorMap, im2col)) continue;  // a bool has two values
      raw[at] = static_cast<unsigned char>(random());
    }
    if (!ProblemOf(decoded.map).empty()) continue;
    const auto again = DecodeTensorMap(EncodeTensorMap(decoded.map, 4096));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->map, decoded.map);
  }
}

}  // namespace
}  // namespace cupel::plan
