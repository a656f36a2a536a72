// SPDX-License-Identifier: Apache-2.0
#include "judge/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "judge/testing.h"

namespace cupel::judge {
namespace {

using testing::HasSubstr;
using Shape = std::vector<int64_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// A truth of standard normals and a correct float32 answer. Each test inserts errors into it.
struct Fixture {
  explicit Fixture(Shape dims) : shape(std::move(dims)) {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    Random random(7);
    for (int64_t i = 0; i < n; ++i) truth.push_back(Normal(random));
    Answer();
  }
  void Answer() { got.assign(truth.begin(), truth.end()); }
  void Change(const std::function<double(double, int64_t)>& f) {
    for (size_t i = 0; i < truth.size(); ++i) {
      got[i] = static_cast<float>(f(truth[i], static_cast<int64_t>(i)));
    }
  }
  task::Output Want() const {
    task::Output want;
    want.shape = shape;
    want.truth = TensorOf(truth, shape, DType::kF64);
    want.error_scale = 4 * 0x1p-24 * Rms(truth);
    return want;
  }
  records::Comparison Judge() const { return Compare(TensorOf(got, shape, DType::kF32), Want()); }

  Shape shape;
  std::vector<double> truth;
  std::vector<float> got;
};

TEST(Compare, WhatLiesBetweenTheTruthsOfExactAndRoundedNumbersIsRight) {
  Fixture f({1000});
  std::vector<double> rounded = f.truth;
  for (double& value : rounded) value *= 1 + 0x1p-12;
  const auto got = [&] { return TensorOf(f.got, f.shape, DType::kF32); };
  const auto is_right = [&](double share) {
    f.Change([&](double truth, int64_t) { return truth * (1 + share * 0x1p-12); });
    task::Output want = f.Want();
    const bool without = Compare(got(), want).ok;
    want.rounded_truth = TensorOf(rounded, f.shape, DType::kF64);
    EXPECT_EQ(CompareQuietly(got(), want).ok, Compare(got(), want).ok);
    return std::pair(without, Compare(got(), want).ok);
  };
  EXPECT_EQ(is_right(0), std::pair(true, true));
  EXPECT_EQ(is_right(0.5), std::pair(false, true));
  EXPECT_EQ(is_right(1), std::pair(false, true));
  EXPECT_EQ(is_right(1.2), std::pair(false, false));
  EXPECT_EQ(is_right(-0.2), std::pair(false, false));
}

TEST(Compare, AcceptsCorrectOutputAndReportsError) {
  const records::Comparison c = Fixture({64, 128}).Judge();
  EXPECT_TRUE(c.ok) << c.message;
  EXPECT_EQ(c.count, 64 * 128);
  EXPECT_EQ(c.wrong_count, 0);
  EXPECT_GT(c.rms_error, 0);
  EXPECT_LT(c.Severity(), 0.1);
  EXPECT_TRUE(c.message.empty());
}

TEST(Compare, ListsFirstFiveWrongElements) {
  Fixture f({64, 128});
  for (int64_t i : {9, 200, 300, 4000, 5000, 6000}) f.got[static_cast<size_t>(i)] += 1;
  const records::Comparison c = f.Judge();
  EXPECT_FALSE(c.ok);
  EXPECT_EQ(c.code, "wrong_result");
  EXPECT_EQ(c.wrong_count, 6);
  ASSERT_EQ(c.first_wrong.size(), 5u);
  EXPECT_EQ(c.first_wrong[1].index, (Shape{1, 72}));
  EXPECT_NEAR(c.first_wrong[1].got - c.first_wrong[1].wanted, 1, 1e-6);
  EXPECT_THAT(c.message, HasSubstr("6 of 8192 elements are wrong"));
}

TEST(Compare, RejectsOtherShapesAndDtypesWithoutBroadcasting) {
  Fixture f({4, 1});
  EXPECT_EQ(Compare(TensorOf(f.got, {4}, DType::kF32), f.Want()).code, "wrong_shape");
  EXPECT_EQ(Compare(TensorOf(f.got, {1, 4}, DType::kF32), f.Want()).code, "wrong_shape");
  const records::Comparison scalar = Compare(TensorOf(f.got, {}, DType::kF32), f.Want());
  EXPECT_THAT(scalar.message, HasSubstr("shape is [], expected [4, 1]"));
  const records::Comparison dtype = Compare(TensorOf(f.truth, {4, 1}, DType::kF64), f.Want());
  EXPECT_EQ(dtype.code, "wrong_dtype");
  EXPECT_THAT(dtype.message, HasSubstr("float64, expected float32"));
}

TEST(Compare, RejectsNonFiniteUnlessTruthIsEqual) {
  Fixture f({100});
  f.truth[3] = kNan;
  f.truth[5] = kInf;
  f.truth[7] = -kInf;
  f.truth[9] = 1e39;  // infinity in float32
  f.Answer();
  EXPECT_TRUE(f.Judge().ok) << f.Judge().message;
  for (const auto& [at, value] : std::vector<std::pair<size_t, float>>{
           {3, 0}, {5, -kInf}, {7, kInf}, {5, kNan}, {9, 3e38f}}) {
    f.Answer();
    f.got[at] = value;
    EXPECT_FALSE(f.Judge().ok) << at << " " << value;
  }
  f.Answer();
  f.got[50] = kNan;
  const records::Comparison c = f.Judge();
  EXPECT_EQ(c.code, "not_finite");
  EXPECT_THAT(c.message, HasSubstr("1 of them NaN or infinite"));
}

TEST(Compare, RejectsManySmallErrorsByRms) {
  Fixture f({4096});
  Random random(3);
  const double step = 40 * f.Want().error_scale;  // below 128 E each, above 16 E together
  f.Change([&](double t, int64_t) { return t + (random() & 1 ? step : -step); });
  const records::Comparison c = f.Judge();
  EXPECT_FALSE(c.ok);
  EXPECT_LT(c.max_error, c.max_limit);
  EXPECT_GT(c.wrong_count, 4000);
  EXPECT_THAT(c.message, HasSubstr("RMS error"));
}

TEST(Compare, ComparesIntegersBeyondDoublePrecision) {
  const std::vector<int64_t> truth = {1, (int64_t{1} << 60) + 1};
  std::vector<int64_t> got = truth;
  task::Output want;
  want.dtype = DType::kI64;
  want.shape = {2};
  want.truth = TensorOf(truth, {2}, DType::kI64);
  EXPECT_TRUE(Compare(TensorOf(got, {2}, DType::kI64), want).ok);
  got[1] -= 1;  // the same double
  const records::Comparison c = Compare(TensorOf(got, {2}, DType::kI64), want);
  EXPECT_FALSE(c.ok);
  EXPECT_EQ(c.wrong_count, 1);
}

TEST(Compare, AcceptsNeighboursAtTies) {
  const std::vector<int8_t> truth = {5, 6, 7, 8}, below = {4, 6, 7, 8}, above = {5, 7, 7, 8};
  std::vector<int8_t> got = {4, 7, 7, 8};
  task::Output want;
  want.dtype = DType::kI8;
  want.shape = {4};
  want.truth = TensorOf(truth, {4}, DType::kI8);
  const auto judge = [&] { return Compare(TensorOf(got, {4}, DType::kI8), want); };
  EXPECT_EQ(judge().wrong_count, 2);
  want.neighbours = {TensorOf(below, {4}, DType::kI8), TensorOf(above, {4}, DType::kI8)};
  EXPECT_TRUE(judge().ok);
  EXPECT_EQ(judge().max_error, 0);
  got = {6, 5, 7, 8};  // the other side of each tie
  EXPECT_EQ(judge().wrong_count, 2);
  got = {5, 6, 7, 9};
  EXPECT_EQ(judge().wrong_count, 1);
  // A sample of blocks.
  engine::OutputTensor sampled;
  sampled.dtype = DType::kI8;
  sampled.shape = {4};
  sampled.is_sampled = true;
  sampled.written = {{1, 3}};
  sampled.bytes = {std::byte{7}, std::byte{7}};
  EXPECT_TRUE(CompareWritten(sampled, want).ok);
  sampled.bytes[0] = std::byte{4};
  EXPECT_EQ(CompareWritten(sampled, want).wrong_count, 1);
  // Neighbours that do not fit.
  want.neighbours[0].dtype = DType::kU8;
  EXPECT_EQ(judge().code, "broken_case");
  want.neighbours = {TensorOf(below, {2, 2}, DType::kI8)};
  EXPECT_EQ(judge().code, "broken_case");
}

TEST(Compare, RankedElementsThatAreEqualMayBeInAnyOrder) {
  // Two rows of four: in the first, elements 1 and 2 are equal; in the second, all are.
  const std::vector<int32_t> labels = {0, 1, 1, 2, 5, 5, 5, 5};
  const std::vector<int64_t> truth = {3, 1, 2, 0, 1, 2};  // the three largest
  std::vector<int64_t> got = truth;
  task::Output want;
  want.dtype = DType::kI64;
  want.shape = {2, 3};
  want.truth = TensorOf(truth, {2, 3}, DType::kI64);
  const auto wrong = [&](std::vector<int64_t> indices) {
    got = std::move(indices);
    return Compare(TensorOf(got, {2, 3}, DType::kI64), want).wrong_count;
  };
  EXPECT_EQ(wrong({3, 2, 1, 0, 1, 2}), 2);
  want.ranking = task::Ranking{TensorOf(labels, {2, 4}, DType::kI32), 1};
  EXPECT_EQ(wrong({3, 2, 1, 0, 1, 2}), 0);
  EXPECT_EQ(wrong({3, 1, 2, 3, 2, 1}), 0);
  EXPECT_EQ(wrong({3, 1, 2, 3, 3, 1}), 1);   // one twice, neither as the truth has it
  EXPECT_EQ(wrong({3, 1, 2, 2, 1, 2}), 1);   // twice, once as the truth has it
  EXPECT_EQ(wrong({1, 3, 2, 0, 1, 2}), 2);   // other elements
  EXPECT_EQ(wrong({3, 1, 2, 0, 4, -1}), 2);  // no elements
  // A sample of blocks.
  engine::OutputTensor sampled;
  sampled.dtype = DType::kI64;
  sampled.shape = {2, 3};
  sampled.is_sampled = true;
  sampled.written = {{3, 5}};
  const std::vector<int64_t> part = {3, 2};
  const auto bytes = std::as_bytes(std::span(part));
  sampled.bytes.assign(bytes.begin(), bytes.end());
  EXPECT_TRUE(CompareWritten(sampled, want).ok);
  // Ranked along the first dimension, of which the output has one index.
  want.shape = {2};
  const std::vector<int64_t> first = {1, 2};
  want.truth = TensorOf(first, {2}, DType::kI64);
  const std::vector<int32_t> columns = {0, 0, 1, 1, 1, 1};
  want.ranking = task::Ranking{TensorOf(columns, {3, 2}, DType::kI32), 0};
  const auto one = [&](std::vector<int64_t> indices) {
    got = std::move(indices);
    return Compare(TensorOf(got, {2}, DType::kI64), want).wrong_count;
  };
  EXPECT_EQ(one({2, 1}), 0);
  EXPECT_EQ(one({0, 1}), 1);
}

TEST(Compare, FloorAllowsFlushedDenormalsButNotFlushedHalves) {
  Fixture f({16});
  for (double& t : f.truth) t *= 1e-40;
  f.Change([](double, int64_t) { return 0; });
  EXPECT_TRUE(f.Judge().ok) << f.Judge().message;

  const std::vector<double> truth(16, 5e-5);  // below float16's smallest normal
  std::vector<uint16_t> got(16, 0);
  task::Output want;
  want.dtype = DType::kF16;
  want.shape = {16};
  want.truth = TensorOf(truth, {16}, DType::kF64);
  want.error_scale = 4 * 0x1p-11 * 5e-5;
  EXPECT_FALSE(Compare(TensorOf(got, {16}, DType::kF16), want).ok);
  for (uint16_t& g : got) g = FloatToHalf(5e-5f);
  EXPECT_TRUE(Compare(TensorOf(got, {16}, DType::kF16), want).ok);
}

TEST(Compare, AllowsRoundingOfLargeHalf) {
  std::vector<double> truth(4096, 1e-4);
  truth[7] = 0.70018;  // 1.5e-4 from the nearest half
  std::vector<uint16_t> got;
  for (const double t : truth) got.push_back(FloatToHalf(static_cast<float>(t)));
  task::Output want;
  want.dtype = DType::kF16;
  want.shape = {4096};
  want.truth = TensorOf(truth, {4096}, DType::kF64);
  want.error_scale = 0x1p-12 * 1e-4 * 10;
  EXPECT_TRUE(Compare(TensorOf(got, {4096}, DType::kF16), want).ok);
  EXPECT_LE(Compare(TensorOf(got, {4096}, DType::kF16), want).Severity(), 1);
  got[7] -= 1;  // two roundings
  EXPECT_FALSE(Compare(TensorOf(got, {4096}, DType::kF16), want).ok);
}

TEST(Compare, ReportsBrokenCaseForInvalidScaleOrTruth) {
  Fixture f({4});
  for (double scale : {std::nan(""), static_cast<double>(kInf), -1.0}) {
    task::Output want = f.Want();
    want.error_scale = scale;
    EXPECT_EQ(Compare(TensorOf(f.got, {4}, DType::kF32), want).code, "broken_case");
  }
  task::Output want = f.Want();
  want.truth.storage = want.truth.storage.first(8);
  EXPECT_EQ(Compare(TensorOf(f.got, {4}, DType::kF32), want).code, "broken_case");
}

TEST(Compare, AcceptsEmptyOutput) {
  EXPECT_TRUE(Fixture({5, 0}).Judge().ok) << Fixture({5, 0}).Judge().message;
}

TEST(Compare, ResultDoesNotDependOnThreads) {
  Fixture f({1500, 1000});
  f.Change([](double t, int64_t i) { return i % 100000 == 99 ? t + 1 : t; });
  const task::Tensor got = TensorOf(f.got, f.shape, DType::kF32);
  const records::Comparison one = CompareOn(1, got, f.Want()), four = CompareOn(4, got, f.Want());
  EXPECT_EQ(one.rms_error, four.rms_error);
  EXPECT_EQ(one.message, four.message);
  EXPECT_EQ(one.first_wrong[4].index, four.first_wrong[4].index);
  EXPECT_EQ(one.wrong_count, 15);
}

/// The fixture's answer restricted to `ranges`, as an engine returns it.
engine::OutputTensor Sampled(const Fixture& fixture, std::vector<engine::ElementRange> ranges) {
  engine::OutputTensor output;
  output.shape = fixture.shape;
  output.is_sampled = true;
  for (const engine::ElementRange& range : ranges) {
    const auto bytes = std::as_bytes(std::span(fixture.got)
                                         .subspan(static_cast<size_t>(range.begin),
                                                  static_cast<size_t>(range.end - range.begin)));
    output.bytes.insert(output.bytes.end(), bytes.begin(), bytes.end());
  }
  output.written = std::move(ranges);
  return output;
}

/// A float8 output, right by default, of a truth with all its digits.
struct Float8Fixture {
  explicit Float8Fixture(DType type) : dtype(type) {
    Random random(11);
    for (int i = 0; i < 4096; ++i) truth.push_back(4 * Normal(random));
    Answer([](double t) { return t; });
  }
  void Answer(const std::function<double(double)>& f) {
    got.clear();
    for (double t : truth) got.push_back(FloatToFloat8(dtype, static_cast<float>(f(t))));
  }
  records::Comparison Judge() const {
    task::Output want;
    want.dtype = dtype;
    want.shape = {64, 64};
    want.truth = TensorOf(truth, want.shape, DType::kF64);
    want.error_scale = 0x1p-12 * Rms(truth);
    return Compare(TensorOf(got, want.shape, dtype), want);
  }
  DType dtype;
  std::vector<double> truth;
  std::vector<uint8_t> got;
};

TEST(CompareFloat8, RoundingIsNoError) {
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    Float8Fixture f(dtype);
    const records::Comparison c = f.Judge();
    EXPECT_TRUE(c.ok) << c.message;
    EXPECT_LT(c.max_error, 1e-5);
    f.Answer([](double t) { return t * (1 + 0x1p-12); });  // some round to the other neighbour
    EXPECT_TRUE(f.Judge().ok) << f.Judge().message;
  }
}

TEST(CompareFloat8, BothNeighboursOfATieAreRightAndTheNextIsWrong) {
  Float8Fixture f(DType::kF8E4M3);
  f.truth[7] = 8.5;  // between 8 and 9
  for (const uint8_t right : std::vector<uint8_t>{0x50, 0x51}) {
    f.got[7] = right;
    EXPECT_TRUE(f.Judge().ok) << f.Judge().message;
  }
  for (const uint8_t wrong : std::vector<uint8_t>{0x4e, 0x4f, 0x52, 0xd0, 0x7f}) {
    f.got[7] = wrong;
    EXPECT_FALSE(f.Judge().ok) << int{wrong};
  }
}

TEST(CompareFloat8, RejectsTruncationFewerDigitsAndSmallFactors) {
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    Float8Fixture f(dtype);
    f.Answer([&](double t) {
      const auto nearest = FloatToFloat8(dtype, static_cast<float>(t));
      const double value = Float8ToFloat(dtype, nearest);
      return std::fabs(value) <= std::fabs(t)
                 ? value
                 : Float8ToFloat(dtype, static_cast<uint8_t>(nearest - 1));
    });
    EXPECT_EQ(f.Judge().pattern, "truncated") << f.Judge().message;
    f.Answer([](double t) { return 1.06 * t; });
    EXPECT_EQ(f.Judge().code, "wrong_result");
    f.Answer([](double t) {
      int exponent = 0;
      const double m = std::frexp(t, &exponent);
      return std::ldexp(std::nearbyint(4 * m) / 4, exponent);
    });
    EXPECT_EQ(f.Judge().code, "wrong_result");
    EXPECT_THAT(f.Judge().message, HasSubstr("beyond rounding to float8_e"));
    f.Answer([](double) { return 0; });
    EXPECT_EQ(f.Judge().code, "wrong_result");
  }
}

TEST(CompareFloat8, NamesSaturationAndItsAbsence) {
  Float8Fixture f(DType::kF8E5M2);
  f.truth[3] = 61440;  // the first number that is rounded to infinity
  f.got[3] = 0x7b;
  EXPECT_EQ(f.Judge().pattern, "saturated") << f.Judge().message;
  EXPECT_THAT(f.Judge().message, HasSubstr("saturates at 57344"));
  f.got[3] = 0x7c;
  EXPECT_TRUE(f.Judge().ok) << f.Judge().message;
  f.truth[3] = 57344;
  EXPECT_EQ(f.Judge().pattern, "not_saturated") << f.Judge().message;

  Float8Fixture g(DType::kF8E4M3);
  g.truth[3] = kNan;  // what older versions of PyTorch give for numbers too large
  g.got[3] = 0x7e;
  EXPECT_EQ(g.Judge().pattern, "saturated") << g.Judge().message;
  EXPECT_THAT(g.Judge().message, HasSubstr("gives NaN"));
  g.got[3] = 0xff;
  EXPECT_TRUE(g.Judge().ok) << g.Judge().message;
}

TEST(CompareWritten, IgnoresUnwrittenElements) {
  Fixture fixture({64, 128});
  fixture.got[1000] = kNan;
  EXPECT_FALSE(fixture.Judge().ok);
  const records::Comparison c =
      CompareWritten(Sampled(fixture, {{0, 1000}, {1001, 1100}, {8191, 8192}}), fixture.Want());
  EXPECT_TRUE(c.ok) << c.message;
  EXPECT_EQ(c.count, 1100);
  EXPECT_GT(c.rms_error, 0);
}

TEST(CompareWritten, ReportsIndexOfWrongElement) {
  Fixture fixture({64, 128});
  fixture.got[1000] += 1;
  const records::Comparison c =
      CompareWritten(Sampled(fixture, {{10, 20}, {900, 1100}}), fixture.Want());
  EXPECT_FALSE(c.ok);
  EXPECT_EQ(c.wrong_count, 1);
  ASSERT_EQ(c.first_wrong.size(), 1u);
  EXPECT_EQ(c.first_wrong[0].index, (Shape{7, 104}));
  EXPECT_THAT(c.message, HasSubstr("sampled blocks"));
}

TEST(CompareWritten, RejectsOutputWithNothingWritten) {
  const Fixture fixture({64, 128});
  EXPECT_FALSE(CompareWritten(Sampled(fixture, {}), fixture.Want()).ok);
}

TEST(CompareWritten, RejectsOtherShapesAndInvalidRanges) {
  const Fixture fixture({64, 128});
  engine::OutputTensor output = Sampled(fixture, {{0, 128}});
  output.written = {{0, 129}};  // more than its bytes hold
  EXPECT_EQ(CompareWritten(output, fixture.Want()).code, "broken_case");
  output.written = {{8191, 8319}};
  EXPECT_EQ(CompareWritten(output, fixture.Want()).code, "broken_case");
  output.shape = {128, 64};
  EXPECT_EQ(CompareWritten(output, fixture.Want()).code, "wrong_shape");
}

}  // namespace
}  // namespace cupel::judge
