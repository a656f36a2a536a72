// SPDX-License-Identifier: Apache-2.0

#include "emu/nodes/nodes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "emu/core/memory.h"

namespace cupel::emu {
namespace {

using plan::Address;
using plan::View;

class Nodes : public ::testing::Test {
 protected:
  Nodes() : memory_(std::move(*GlobalMemory::Create())) {}

  template <typename T>
  int Put(const std::vector<T>& values) {
    const int index = Reserve(values.size() * sizeof(T));
    std::memcpy(Host(index), values.data(), values.size() * sizeof(T));
    return index;
  }
  int Reserve(uint64_t bytes) {
    const int index = static_cast<int>(buffers_.size());
    const std::string name = "temporary " + std::to_string(index);
    buffers_.push_back({*memory_.Allocate(bytes, index, false, name), bytes, name});
    return index;
  }
  std::byte* Host(int buffer) {
    return memory_.Host(buffers_[static_cast<size_t>(buffer)].address);
  }
  template <typename T>
  std::vector<T> Get(int buffer) {
    std::vector<T> values(buffers_[static_cast<size_t>(buffer)].bytes / sizeof(T));
    std::memcpy(values.data(), Host(buffer), values.size() * sizeof(T));
    return values;
  }
  template <typename Node>
  NodeOutcome Run(const Node& node) {
    return NodeRunner(memory_, buffers_, pool_).Run(node);
  }
  /// Converts a packed array through CopyView.
  template <typename To, typename From>
  std::vector<To> Converted(DType to, DType from, const std::vector<From>& values) {
    const int source = Put(values);
    const int target = Reserve(values.size() * sizeof(To));
    const auto n = static_cast<int64_t>(values.size());
    EXPECT_TRUE(
        Run(plan::CopyView{{{target, 0}, to, {n}, {1}}, {{source, 0}, from, {n}, {1}}}).ok());
    return Get<To>(target);
  }

  GlobalMemory memory_;
  std::vector<BoundBuffer> buffers_;
  ThreadPool pool_{2};
};

TEST_F(Nodes, CopyMovesBytesAndOverlapsSafely) {
  const int a = Put<int32_t>({1, 2, 3, 4, 5, 6});
  const int b = Reserve(8);
  EXPECT_TRUE(Run(plan::Copy{{b, 0}, {a, 8}, 8}).ok());
  EXPECT_EQ(Get<int32_t>(b), (std::vector<int32_t>{3, 4}));
  EXPECT_TRUE(Run(plan::Copy{{a, 4}, {a, 0}, 20}).ok());
  EXPECT_EQ(Get<int32_t>(a), (std::vector<int32_t>{1, 1, 2, 3, 4, 5}));
}

TEST_F(Nodes, ReportsAccessesOutsideTheirBuffer) {
  const int a = Reserve(64);
  const int b = Reserve(60);
  const NodeOutcome copy = Run(plan::Copy{{b, 0}, {a, 0}, 64});
  ASSERT_TRUE(copy.finding);
  EXPECT_EQ(copy.finding->code, "out_of_bounds");
  EXPECT_NE(copy.finding->message.find("writes 64 bytes at temporary 1 + 0 bytes"),
            std::string::npos)
      << copy.finding->message;
  EXPECT_TRUE(Run(plan::Copy{{a, 0}, {-1, 0}, 4}).finding);
  EXPECT_TRUE(Run(plan::Copy{{a, -4}, {b, 0}, 4}).finding);
  EXPECT_TRUE(Run(plan::Copy{{7, 0}, {b, 0}, 4}).finding);
  EXPECT_TRUE(Run(plan::Copy{{a, 1}, {b, 0}, ~uint64_t{0}}).finding);
  EXPECT_TRUE(Run(plan::Fill{{a, 4}, std::string(8, 'x'), 8}).finding);
  EXPECT_TRUE(Run(plan::Fill{{a, 0}, std::string(8, 'x'), uint64_t{1} << 62}).finding);
  EXPECT_TRUE(Run(plan::Upload{{b, 59}, "ab", {}, {}}).finding);
  const View big{{a, 0}, DType::kF32, {4, 4}, {int64_t{1} << 61, 1}};
  EXPECT_TRUE(Run(plan::CopyView{{{b, 0}, DType::kF32, {4, 4}, {4, 1}}, big}).finding);
  EXPECT_TRUE(
      Run(plan::CopyView{{{b, 0}, DType::kF32, {16}, {1}}, {{a, 0}, DType::kF32, {16}, {1}}})
          .finding);
}

TEST_F(Nodes, FillRepeatsPatternsOfEveryWidth) {
  const int a = Reserve(5 << 20);
  ASSERT_TRUE(Run(plan::Fill{{a, 0}, std::string("\x01\x02\x03\x04", 4), (5 << 20) / 4}).ok());
  for (uint32_t word : Get<uint32_t>(a)) ASSERT_EQ(word, 0x04030201u);
  ASSERT_TRUE(Run(plan::Fill{{a, 3}, std::string("\x07", 1), 2}).ok());
  EXPECT_EQ(Get<uint8_t>(a)[2], 3);
  EXPECT_EQ(Get<uint8_t>(a)[3], 7);
  EXPECT_EQ(Get<uint8_t>(a)[4], 7);
  EXPECT_EQ(Get<uint8_t>(a)[5], 2);
}

TEST_F(Nodes, UploadRelocatesPointers) {
  const int a = Reserve(32);
  const int b = Reserve(64);
  std::string bytes(24, '\0');
  bytes[0] = 9;
  ASSERT_TRUE(Run(plan::Upload{{a, 8}, bytes, {{8, {b, 16}}, {16, {-1, 0}}}, {}}).ok());
  const auto words = Get<uint64_t>(a);
  EXPECT_EQ(words[1], 9u);
  EXPECT_EQ(words[2], buffers_[1].address + 16);
  EXPECT_EQ(words[3], 0u);
  EXPECT_TRUE(Run(plan::Upload{{a, 0}, bytes, {{20, {b, 0}}}, {}}).finding);
}

TEST_F(Nodes, UploadEncodesTensorMaps) {
  const int a = Reserve(256);
  const int b = Reserve(64);
  plan::TensorMap map;
  map.dims = {16};
  map.box = {16};
  map.element_strides = {1};
  const std::string bytes(192, '\0');
  ASSERT_TRUE(Run(plan::Upload{{a, 0}, bytes, {}, {{64, {b, 32}, map}}}).ok());
  const auto words = Get<uint64_t>(a);
  const auto decoded = plan::DecodeTensorMap(std::as_bytes(std::span(words)).subspan(64));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->map, map);
  EXPECT_EQ(decoded->address, buffers_[1].address + 32);
  EXPECT_TRUE(Run(plan::Upload{{a, 0}, bytes, {}, {{65, {b, 32}, map}}}).finding);
}

TEST_F(Nodes, CopyViewHandlesStridesOnBothSides) {
  std::vector<float> values(24);
  for (size_t i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
  const int a = Put(values);  // 2 x 3 x 4
  const int b = Reserve(24 * 4);
  // Transposes the outer and inner dimension: b[k][j][i] = a[i][j][k].
  ASSERT_TRUE(Run(plan::CopyView{{{b, 0}, DType::kF32, {2, 3, 4}, {1, 2, 6}},
                                 {{a, 0}, DType::kF32, {2, 3, 4}, {12, 4, 1}}})
                  .ok());
  const auto got = Get<float>(b);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      for (size_t k = 0; k < 4; ++k) EXPECT_EQ(got[k * 6 + j * 2 + i], values[i * 12 + j * 4 + k]);
    }
  }
  // Zero strides expand, negative strides reverse.
  const int c = Reserve(8 * 4);
  ASSERT_TRUE(Run(plan::CopyView{{{c, 0}, DType::kF32, {2, 4}, {4, 1}},
                                 {{a, 12}, DType::kF32, {2, 4}, {0, -1}}})
                  .ok());
  EXPECT_EQ(Get<float>(c), (std::vector<float>{3, 2, 1, 0, 3, 2, 1, 0}));
}

TEST_F(Nodes, CopiesLargeViewsOnSeveralThreads) {
  const int64_t n = 3 * (1 << 17) + 2;
  std::vector<int32_t> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = static_cast<int32_t>(i);
  const std::vector<double> got = Converted<double>(DType::kF64, DType::kI32, values);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(got[static_cast<size_t>(i)], static_cast<double>(i));
}

TEST_F(Nodes, RejectsWritingOneElementTwice) {
  const int a = Reserve(64);
  const int b = Reserve(64);
  const NodeOutcome outcome = Run(
      plan::CopyView{{{a, 0}, DType::kF32, {1 << 20}, {0}}, {{b, 0}, DType::kF32, {1 << 20}, {0}}});
  ASSERT_TRUE(outcome.finding);
  EXPECT_EQ(outcome.finding->code, "illegal_copy");
}

TEST_F(Nodes, ConvertsFloatsToIntegersByTruncation) {
  const float nan = std::nanf("");
  EXPECT_EQ(Converted<int32_t>(DType::kI32, DType::kF32,
                               std::vector<float>{1.9f, -1.9f, 3e9f, -3e9f, nan}),
            (std::vector<int32_t>{1, -1, std::numeric_limits<int32_t>::max(),
                                  std::numeric_limits<int32_t>::min(), 0}));
  EXPECT_EQ(Converted<int64_t>(DType::kI64, DType::kF64, std::vector<double>{-2.5, 1e300, nan}),
            (std::vector<int64_t>{-2, std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()}));
  EXPECT_EQ(Converted<uint8_t>(DType::kU8, DType::kF32, std::vector<float>{255.9f, 257.0f, -1.0f}),
            (std::vector<uint8_t>{255, 1, 255}));
}

TEST_F(Nodes, IntegersWrapAndNonzeroBecomesTrue) {
  EXPECT_EQ(Converted<int8_t>(DType::kI8, DType::kI32, std::vector<int32_t>{300, -129, 5}),
            (std::vector<int8_t>{44, 127, 5}));
  EXPECT_EQ(Converted<uint8_t>(DType::kBool, DType::kF32,
                               std::vector<float>{0.0f, -0.0f, 1e-40f, std::nanf("")}),
            (std::vector<uint8_t>{0, 0, 1, 1}));
  EXPECT_EQ(Converted<float>(DType::kF32, DType::kBool, std::vector<uint8_t>{0, 1, 2}),
            (std::vector<float>{0, 1, 1}));
}

TEST_F(Nodes, SixteenBitFloatsRoundToNearestEven) {
  EXPECT_EQ(
      Converted<uint16_t>(DType::kF16, DType::kF32,
                          std::vector<float>{1.0f, 1.0f + 0x1p-11f, 1.0f + 0x1.8p-10f, 70000.0f}),
      (std::vector<uint16_t>{0x3c00, 0x3c00, 0x3c02, 0x7c00}));
  EXPECT_EQ(
      Converted<uint16_t>(DType::kBF16, DType::kF64, std::vector<double>{1.0, 1.0 + 0x1p-8, 3.0}),
      (std::vector<uint16_t>{0x3f80, 0x3f80, 0x4040}));
  EXPECT_EQ(Converted<float>(DType::kF32, DType::kF16, std::vector<uint16_t>{0x3555, 0xfc00}),
            (std::vector<float>{HalfToFloat(0x3555), -std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(
      Converted<float>(DType::kF32, DType::kI64, std::vector<int64_t>{(int64_t{1} << 24) + 1}),
      (std::vector<float>{0x1p24f}));
}

TEST_F(Nodes, EightBitFloatsRoundToNearestEven) {
  EXPECT_EQ(Converted<uint8_t>(DType::kF8E4M3, DType::kF32,
                               std::vector<float>{1.0f, 1.0625f, 1.1875f, 1000.0f}),
            (std::vector<uint8_t>{0x38, 0x38, 0x3a, 0x7e}));
  EXPECT_EQ(Converted<uint8_t>(DType::kF8E5M2, DType::kF64, std::vector<double>{1.0, -1.125, 7e4}),
            (std::vector<uint8_t>{0x3c, 0xbc, 0x7c}));
  EXPECT_EQ(Converted<float>(DType::kF32, DType::kF8E4M3, std::vector<uint8_t>{0x01, 0xfe}),
            (std::vector<float>{0x1p-9f, -448.0f}));
  EXPECT_EQ(Converted<uint8_t>(DType::kF8E5M2, DType::kF8E4M3, std::vector<uint8_t>{0x38, 0xb0}),
            (std::vector<uint8_t>{0x3c, 0xb8}));
}

TEST_F(Nodes, SameTypeKeepsNanPayloads) {
  EXPECT_EQ(
      Converted<uint32_t>(DType::kF32, DType::kF32, std::vector<uint32_t>{0x7f800001, 0xffc12345}),
      (std::vector<uint32_t>{0x7f800001, 0xffc12345}));
}

TEST_F(Nodes, ExtractMakesAViewContiguous) {
  const int a = Put<int32_t>({0, 1, 2, 3, 4, 5});
  const NodeRunner runner(memory_, buffers_, pool_);
  std::vector<std::byte> bytes;
  ASSERT_TRUE(runner.Extract({{a, 4}, DType::kI32, {2, 2}, {1, 2}}, "output 0", &bytes).ok());
  int32_t got[4];
  ASSERT_EQ(bytes.size(), sizeof got);
  std::memcpy(got, bytes.data(), sizeof got);
  EXPECT_EQ(std::vector<int32_t>(got, got + 4), (std::vector<int32_t>{1, 3, 2, 4}));
  const NodeOutcome outside = runner.Extract({{a, 4}, DType::kI32, {6}, {1}}, "output 0", &bytes);
  ASSERT_TRUE(outside.finding);
  EXPECT_NE(outside.finding->message.find("output 0 reads 24 bytes"), std::string::npos);
}

TEST_F(Nodes, GemmMultipliesStridedAndPointerBatches) {
  // Column-major 2x2: a = [1 3; 2 4], identity, then doubled.
  const int a = Put<float>({1, 2, 3, 4, 2, 4, 6, 8});
  const int b = Put<float>({1, 0, 0, 1});
  const int c = Reserve(8 * 4);
  plan::Gemm gemm;
  gemm.m = gemm.n = gemm.k = 2;
  gemm.lda = gemm.ldb = gemm.ldc = 2;
  gemm.a = {a, 0};
  gemm.b = {b, 0};
  gemm.c = {c, 0};
  gemm.batch = 2;
  gemm.stride_a = 4;
  gemm.stride_c = 4;
  ASSERT_TRUE(Run(gemm).ok());
  EXPECT_EQ(Get<float>(c), (std::vector<float>{1, 2, 3, 4, 2, 4, 6, 8}));
  gemm.pointers = {{Address{a, 16}, Address{b, 0}, Address{c, 0}},
                   {Address{a, 0}, Address{b, 0}, Address{c, 16}}};
  ASSERT_TRUE(Run(gemm).ok());
  EXPECT_EQ(Get<float>(c), (std::vector<float>{2, 4, 6, 8, 1, 2, 3, 4}));
}

TEST_F(Nodes, GemmChecksShapesBoundsAndTypes) {
  const int a = Reserve(16 * 4);
  plan::Gemm gemm;
  gemm.m = gemm.n = gemm.k = 4;
  gemm.lda = gemm.ldb = gemm.ldc = 4;
  gemm.a = gemm.b = gemm.c = {a, 0};
  ASSERT_TRUE(Run(gemm).ok());
  gemm.lda = 3;
  EXPECT_EQ(Run(gemm).finding->code, "illegal_gemm");
  gemm.lda = 5;
  EXPECT_EQ(Run(gemm).finding->code, "out_of_bounds");
  gemm.lda = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Run(gemm).finding->code, "out_of_bounds");
  gemm.lda = 4;
  gemm.batch = 2;
  gemm.stride_c = 1;
  EXPECT_EQ(Run(gemm).finding->code, "out_of_bounds");
  gemm.batch = 1;
  gemm.a_type = DType::kI8;
  EXPECT_NE(Run(gemm).unsupported.find("int8"), std::string::npos);
}

}  // namespace
}  // namespace cupel::emu
