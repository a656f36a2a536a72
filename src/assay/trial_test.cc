// SPDX-License-Identifier: Apache-2.0
#include "assay/trial.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "base/dtype.h"

namespace cupel::assay {
namespace {

engine::OutputTensor Halves(const std::vector<float>& values) {
  engine::OutputTensor output;
  output.dtype = DType::kF16;
  output.shape = {static_cast<int64_t>(values.size())};
  output.bytes.resize(2 * values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = FloatToHalf(values[i]);
    std::memcpy(output.bytes.data() + 2 * i, &bits, sizeof bits);
  }
  return output;
}

/// An output whose limit of the largest error is below the distance of float16 numbers near 0.06.
task::Output Wanted(size_t count) {
  task::Output wanted;
  wanted.dtype = DType::kF16;
  wanted.shape = {static_cast<int64_t>(count)};
  wanted.error_scale = 1e-7;
  return wanted;
}

TEST(CompareRuns, TakesNeighbouringNumbersForEqual) {
  constexpr float kStep = 0x1p-15F;  // between 2^-5 and 2^-4
  constexpr float kValue = 0.046875F;
  std::vector<float> clean(1000, kValue);
  auto got = clean;
  got[17] += kStep;
  got[500] -= kStep;
  EXPECT_TRUE(CompareRuns(Halves(got), Halves(clean), Wanted(clean.size())).ok);
  got[17] += kStep;
  const auto two_steps = CompareRuns(Halves(got), Halves(clean), Wanted(clean.size()));
  EXPECT_FALSE(two_steps.ok);
  EXPECT_EQ(two_steps.wrong_count, 1);
}

TEST(CompareRuns, NoticesValuesOfOtherInputs) {
  const std::vector<float> clean(100, 1.0F), got(100, 0.5F), infinite(100, INFINITY);
  EXPECT_FALSE(CompareRuns(Halves(got), Halves(clean), Wanted(100)).ok);
  EXPECT_FALSE(CompareRuns(Halves(infinite), Halves(clean), Wanted(100)).ok);
  EXPECT_FALSE(CompareRuns(Halves({1.0F}), Halves(clean), Wanted(100)).ok);
}

TEST(CompareRuns, TheOtherTruthOfTheCaseIsOfOtherInputs) {
  const std::vector<float> clean(100, 1.0F), stale(100, 0.5F);
  const std::vector<double> rounded(100, 0.5);
  task::Output wanted = Wanted(100);
  wanted.rounded_truth.emplace();
  wanted.rounded_truth->dtype = DType::kF64;
  wanted.rounded_truth->shape = wanted.shape;
  wanted.rounded_truth->strides = {1};
  wanted.rounded_truth->storage = std::as_bytes(std::span(rounded));
  EXPECT_TRUE(CompareRuns(Halves(clean), Halves(clean), wanted).ok);
  EXPECT_FALSE(CompareRuns(Halves(stale), Halves(clean), wanted).ok);
}

}  // namespace
}  // namespace cupel::assay
