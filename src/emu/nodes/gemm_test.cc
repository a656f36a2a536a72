// SPDX-License-Identifier: Apache-2.0
#include "emu/nodes/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"

namespace cupel::emu {
namespace {

void Store(std::vector<std::byte>* bytes, DType dtype, int64_t index, double value) {
  std::byte* at = bytes->data() + index * SizeOf(dtype);
  const auto single = static_cast<float>(value);
  const uint16_t half = dtype == DType::kF16 ? FloatToHalf(single) : FloatToBFloat16(single);
  if (dtype == DType::kF32) std::memcpy(at, &single, 4);
  if (dtype == DType::kF64) std::memcpy(at, &value, 8);
  if (SizeOf(dtype) == 2) std::memcpy(at, &half, 2);
}

struct Matrix {
  Matrix(DType type, int64_t rows, int64_t cols, int64_t lead, Random* random)
      : dtype(type), ld(lead), bytes(static_cast<size_t>(lead * cols * SizeOf(type))) {
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = 0; r < ld; ++r) {
        // Padding rows are NaN, so that reading one shows in the result.
        const double value = r < rows ? random->Unit() * 2 - 1 : std::nan("");
        Store(&bytes, dtype, r + c * ld, value);
      }
    }
  }
  double At(int64_t r, int64_t c) const { return LoadAsDouble(dtype, bytes.data(), r + c * ld); }
  DType dtype;
  int64_t ld;
  std::vector<std::byte> bytes;
};

struct Shape {
  int64_t m, n, k;
};

// The largest error compared with a float64 sum, divided by the magnitude of the terms.
double LargestError(Shape s, bool ta, bool tb, DType in, DType out, GemmCompute compute,
                    double alpha, double beta, ThreadPool* pool) {
  Random random(static_cast<uint64_t>(s.m * 1000 + s.n * 10 + s.k + (ta ? 1 : 0) + (tb ? 2 : 0)));
  const Matrix a(in, ta ? s.k : s.m, ta ? s.m : s.k, (ta ? s.k : s.m) + 3, &random);
  const Matrix b(in, tb ? s.n : s.k, tb ? s.k : s.n, (tb ? s.n : s.k) + 5, &random);
  Matrix c(out, s.m, s.n, s.m + 2, &random);
  const Matrix before = c;
  MultiplyMatrices({s.m,
                    s.n,
                    s.k,
                    alpha,
                    beta,
                    {a.bytes.data(), in, a.ld, ta},
                    {b.bytes.data(), in, b.ld, tb},
                    c.bytes.data(),
                    out,
                    c.ld,
                    compute},
                   pool);
  double worst = 0;
  for (int64_t j = 0; j < s.n; ++j) {
    for (int64_t i = 0; i < s.m; ++i) {
      double sum = 0;
      double scale = 1;
      for (int64_t l = 0; l < s.k; ++l) {
        const double term = (ta ? a.At(l, i) : a.At(i, l)) * (tb ? b.At(j, l) : b.At(l, j));
        sum += term;
        scale += std::abs(term);
      }
      const double want = alpha * sum + beta * before.At(i, j);
      const double error = std::abs(c.At(i, j) - want) / scale;
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
    }
  }
  return worst;
}

TEST(Gemm, AgreesWithASerialSumInEveryLayout) {
  ThreadPool pool(2);
  const Shape shapes[] = {{1, 1, 1},      {7, 5, 3},     {33, 13, 300},
                          {200, 197, 40}, {64, 10, 128}, {3, 400, 9}};
  for (const Shape& s : shapes) {
    for (int t = 0; t < 4; ++t) {
      EXPECT_LT(LargestError(s, (t & 1) != 0, (t & 2) != 0, DType::kF32, DType::kF32,
                             GemmCompute::kF32, 1.5, -0.5, &pool),
                1e-6)
          << s.m << "x" << s.n << "x" << s.k << " layout " << t;
      EXPECT_LT(LargestError(s, (t & 1) != 0, (t & 2) != 0, DType::kF64, DType::kF64,
                             GemmCompute::kF64, 2, 1, nullptr),
                1e-14);
    }
  }
}

TEST(Gemm, SixteenBitOperandsStayWithinTolerance) {
  const Shape s{40, 30, 100};
  EXPECT_LT(
      LargestError(s, true, false, DType::kF16, DType::kF32, GemmCompute::kF32, 1, 0, nullptr),
      1e-6);
  EXPECT_LT(
      LargestError(s, false, true, DType::kBF16, DType::kF32, GemmCompute::kF32, 1, 0, nullptr),
      1e-6);
  EXPECT_LT(
      LargestError(s, false, false, DType::kBF16, DType::kBF16, GemmCompute::kF32, 1, 0, nullptr),
      3e-3);
  const double half =
      LargestError(s, false, false, DType::kF16, DType::kF16, GemmCompute::kF16, 1, 0, nullptr);
  EXPECT_LT(half, 3e-3);
  EXPECT_GT(half, 1e-5);
}

TEST(Gemm, Tf32RoundsOperandsTiesAwayFromZero) {
  // 1 + 2^-11 is half-way between 1 and 1 + 2^-10.
  const float a = 1.0f + 0x1p-11f;
  const float b = -1.0f;
  float c = 0;
  GemmProblem p{1,
                1,
                1,
                1,
                0,
                {reinterpret_cast<const std::byte*>(&a), DType::kF32, 1, false},
                {reinterpret_cast<const std::byte*>(&b), DType::kF32, 1, false},
                reinterpret_cast<std::byte*>(&c),
                DType::kF32,
                1,
                GemmCompute::kTF32};
  MultiplyMatrices(p, nullptr);
  EXPECT_EQ(c, -(1.0f + 0x1p-10f));
  p.compute = GemmCompute::kF32;
  MultiplyMatrices(p, nullptr);
  EXPECT_EQ(c, -a);
}

TEST(Gemm, BetaZeroDoesNotReadC) {
  const float a = 2;
  const float b = 3;
  float c = std::nanf("");
  MultiplyMatrices({1,
                    1,
                    1,
                    1,
                    0,
                    {reinterpret_cast<const std::byte*>(&a), DType::kF32, 1, false},
                    {reinterpret_cast<const std::byte*>(&b), DType::kF32, 1, false},
                    reinterpret_cast<std::byte*>(&c),
                    DType::kF32,
                    1,
                    GemmCompute::kF32},
                   nullptr);
  EXPECT_EQ(c, 6.0f);
}

TEST(Gemm, ZeroDepthOnlyScalesC) {
  float c = 3;
  MultiplyMatrices(
      {1, 1, 0, 1, 2, {}, {}, reinterpret_cast<std::byte*>(&c), DType::kF32, 1, GemmCompute::kF32},
      nullptr);
  EXPECT_EQ(c, 6.0f);
}

}  // namespace
}  // namespace cupel::emu
