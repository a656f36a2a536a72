// SPDX-License-Identifier: Apache-2.0
#include "judge/shadow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "judge/established.h"
#include "judge/testing.h"

namespace cupel::judge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Standard normals with float32 values and exact shadows, into which each test puts errors.
struct ShadowFixture {
  explicit ShadowFixture(size_t count = 1000) : shape{static_cast<int64_t>(count)} {
    Random random(3);
    for (size_t i = 0; i < count; ++i) truth.push_back(Normal(random));
    got.dtype = DType::kF32;
    got.shape = shape;
    got.shadow = truth;
    got.shadow_state.assign(count, 0);
    got.bytes.resize(4 * count);
    for (size_t i = 0; i < count; ++i) Value(i, truth[i]);
  }
  void Value(size_t i, double value) {
    const auto single = static_cast<float>(value);
    std::memcpy(got.bytes.data() + 4 * i, &single, 4);
  }
  task::Output Want() const {
    task::Output want;
    want.name = "output";
    want.shape = shape;
    want.truth = TensorOf(truth, shape, DType::kF64);
    want.error_scale = 1;  // very loose: it must not matter
    want.conditioning = conditioning;
    return want;
  }
  ShadowComparison Judge() const { return CompareShadows(got, Want()); }

  std::vector<int64_t> shape;
  std::vector<double> truth;
  engine::OutputTensor got;
  double conditioning = 0;
};

TEST(Shadow, EqualUpToFloat32Constants) {
  ShadowFixture f;
  for (double& shadow : f.got.shadow) shadow *= 1 + 0x1p-23;
  const ShadowComparison c = f.Judge();
  EXPECT_TRUE(c.established());
  EXPECT_NEAR(c.scale, 1, 0.1);
  EXPECT_LT(c.own_rms, 0x1p-22);
  EXPECT_FALSE(c.reduced_precision);
}

TEST(Shadow, NumbersOfTheTaskMayBeRounded) {
  ShadowFixture f;
  std::vector<double> rounded = f.truth;
  for (double& value : rounded) value *= 1 + 0x1p-16;
  const auto judge = [&](double share) {
    for (size_t i = 0; i < f.truth.size(); ++i)
      f.got.shadow[i] = f.truth[i] * (1 + share * 0x1p-16);
    task::Output want = f.Want();
    const bool is_known = CompareShadows(f.got, want).ok();
    want.rounded_truth = TensorOf(rounded, f.shape, DType::kF64);
    return std::pair(is_known, CompareShadows(f.got, want).ok());
  };
  EXPECT_EQ(judge(1), std::pair(false, true));
  EXPECT_EQ(judge(0.5), std::pair(false, true)) << "some are rounded";
  EXPECT_EQ(judge(1.5), std::pair(false, false));
  EXPECT_EQ(judge(-0.5), std::pair(false, false));
}

TEST(Shadow, RejectsDisagreementWithinTolerance) {
  ShadowFixture f;
  f.got.shadow[7] += 4 * 0x1p-20;
  const ShadowComparison c = f.Judge();
  EXPECT_FALSE(c.ok());
  EXPECT_EQ(c.disagree, 1);
  EXPECT_THAT(c.first, ElementsAre(7));
  EXPECT_THAT(DisagreementText(c), HasSubstr("1 of 1000 elements"));
}

TEST(Shadow, AllowsRelativeErrorOfPeaks) {
  ShadowFixture f;
  f.truth[7] = 1000;
  f.got.shadow[7] = 1000 * (1 + 0x1p-21);
  EXPECT_TRUE(f.Judge().established());
  f.got.shadow[7] = 1000 * (1 + 0x1p-18);
  EXPECT_FALSE(f.Judge().ok());
}

TEST(Shadow, ResetOrDoubtIsNeitherEstablishedNorRejected) {
  ShadowFixture f;
  f.got.shadow[7] += 1;
  f.got.shadow_state[7] = engine::kShadowBranch;
  f.got.shadow[8] += 1;
  f.got.shadow_state[8] = engine::kShadowReset;
  f.got.shadow_state[9] = engine::kShadowReset;    // agrees, but only as a value
  f.got.shadow_state[10] = engine::kShadowBranch;  // agrees, so the doubt does not count
  f.got.shadow[11] = NAN;
  const ShadowComparison c = f.Judge();
  EXPECT_TRUE(c.ok());
  EXPECT_FALSE(c.established());
  EXPECT_EQ(c.reset, 2);
  EXPECT_EQ(c.doubtful, 2);
  EXPECT_EQ(c.equal, 996);
}

/// An output of float16 whose shadows were all reset, and whose values are `of` of the truth.
std::string UnexplainedErrors(DType dtype, double (*of)(double truth, size_t i)) {
  std::vector<double> truth(2000);
  engine::OutputTensor got;
  got.dtype = dtype;
  got.shape = {2000};
  for (size_t i = 0; i < truth.size(); ++i) {
    truth[i] = std::sin(static_cast<double>(i)) * 3;
    const double value = of(truth[i], i);
    const auto rounded = static_cast<float>(value);
    uint32_t bits = std::bit_cast<uint32_t>(rounded);
    uint16_t half = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    if (dtype == DType::kF16) half = std::bit_cast<uint16_t>(static_cast<_Float16>(rounded));
    got.bytes.push_back(static_cast<std::byte>(half & 0xff));
    got.bytes.push_back(static_cast<std::byte>(half >> 8));
    got.shadow.push_back(value);
    got.shadow_state.push_back(engine::kShadowReset);
  }
  task::Output want;
  want.dtype = dtype;
  want.shape = {2000};
  want.truth.dtype = DType::kF64;
  want.truth.shape = {2000};
  want.truth.strides = {1};
  want.truth.storage = std::as_bytes(std::span(truth));
  const ShadowComparison c = CompareShadows(got, want);
  EXPECT_EQ(c.reset, 2000);
  return c.unexplained;
}

TEST(Shadow, ErrorsThatRoundingDoesNotExplainAreNamed) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    EXPECT_EQ(UnexplainedErrors(dtype, [](double t, size_t) { return t; }), "");
    // Rounded twice.
    EXPECT_EQ(UnexplainedErrors(dtype,
                                [](double t, size_t i) {
                                  return t * (1 + 0x1p-11 * std::cos(static_cast<double>(7 * i)));
                                }),
              "");
    EXPECT_THAT(UnexplainedErrors(dtype, [](double t, size_t) { return t * 1.01; }),
                HasSubstr("% too large on average"));
    EXPECT_THAT(UnexplainedErrors(
                    dtype, [](double t, size_t i) { return t + (i % 2 == 0 ? 0.06 : -0.06); }),
                HasSubstr("RMS"));
  }
}

TEST(Shadow, AgreeingShadowsReplaceValues) {
  ShadowFixture f;
  f.Value(7, f.truth[7] + 1);  // the kernel's own rounding
  f.got.shadow_state[7] = engine::kShadowReset;
  f.Value(8, f.truth[8] + 1);  // the shadow is wrong, too
  f.got.shadow[8] += 4 * 0x1p-20;
  f.got.shadow_state[8] = engine::kShadowReset;
  f.got.shadow[9] = NAN;
  const std::vector<std::byte> bytes = BytesWithAgreeingShadows(f.got, f.Want());
  const auto at = [&](size_t i) {
    float value;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    return value;
  };
  EXPECT_EQ(at(7), static_cast<float>(f.truth[7]));
  EXPECT_EQ(at(8), static_cast<float>(f.truth[8] + 1));
  EXPECT_EQ(at(9), static_cast<float>(f.truth[9]));
  // Without shadows, all values are kept.
  f.got.shadow.clear();
  EXPECT_EQ(BytesWithAgreeingShadows(f.got, f.Want()), f.got.bytes);
}

TEST(Shadow, RoundingToFloat8RejectsOnlyIfTheReferenceRoundsToo) {
  ShadowFixture f;
  f.got.shadow[7] += 1;
  f.got.shadow_state[7] = engine::kShadowSmall;
  EXPECT_TRUE(f.Judge().ok());
  EXPECT_EQ(f.Judge().doubtful, 1);
  task::Output want = f.Want();
  want.rounds_to_float8 = true;
  EXPECT_FALSE(CompareShadows(f.got, want).ok());
}

TEST(Shadow, AllowsErrorOfIllConditionedTask) {
  ShadowFixture f;
  f.got.shadow[7] += 4 * 0x1p-20;
  f.conditioning = 8 * 0x1p-20;
  EXPECT_TRUE(f.Judge().established());
}

TEST(Shadow, ZeroTruthRequiresZeroShadows) {
  ShadowFixture f;
  std::fill(f.truth.begin(), f.truth.end(), 0.0);
  f.got.shadow = f.truth;
  EXPECT_TRUE(f.Judge().established());
  f.got.shadow[3] = 1e-9;
  EXPECT_FALSE(f.Judge().ok());
}

TEST(Shadow, DetectsHalfPrecision) {
  ShadowFixture f;
  for (size_t i = 0; i < f.truth.size(); ++i) {
    f.Value(i, HalfToFloat(FloatToHalf(static_cast<float>(f.truth[i]))));
  }
  const ShadowComparison c = f.Judge();
  EXPECT_TRUE(c.established());
  EXPECT_TRUE(c.reduced_precision);
  EXPECT_NEAR(c.own_rms, 2e-4, 1e-4);
}

TEST(Shadow, OrdersMayDifferOnlyByRounding) {
  ShadowFixture a, b;
  for (double& shadow : b.got.shadow) shadow *= 1 + 1e-15;
  b.Value(5, 17);  // only shadows are compared
  EXPECT_EQ(FirstOrderDependence(a.got, b.got), -1);
  b.got.shadow[5] += 1e-6;
  EXPECT_EQ(FirstOrderDependence(a.got, b.got), 5);
  b.got.shadow_state[5] = engine::kShadowBranch;
  EXPECT_EQ(FirstOrderDependence(a.got, b.got), -1);
}

TEST(Shadow, IntegersMustAgreeAcrossOrders) {
  ShadowFixture a, b;
  a.got.dtype = b.got.dtype = DType::kI32;
  EXPECT_EQ(FirstOrderDependence(a.got, b.got), -1);
  b.got.bytes[4 * 9] ^= std::byte{1};
  EXPECT_EQ(FirstOrderDependence(a.got, b.got), 9);
}

TEST(Established, TextsSayWhatIsAndIsNotEstablished) {
  ShadowFixture f;
  records::Established all;
  all.tolerance_inputs = 5;
  all.shadow_inputs = 2;
  all.tiny_inputs = 1;
  all.exact_inputs = 1;
  all.schedules = 2;
  Add(all, 0, "y", f.Judge());
  Add(all, 0, "y", f.Judge());
  EXPECT_THAT(EstablishedTexts({&all}),
              ElementsAre(testing::AllOf(
                  HasSubstr("y: within tolerance on 5 inputs"),
                  HasSubstr("equal in exact arithmetic up to float32 constants on 2 inputs"),
                  HasSubstr("bit-equal on 1 input of small integers"),
                  HasSubstr("same result in 2 other orders"))));
  f.got.shadow_state[9] = engine::kShadowReset;
  records::Established none;
  none.tolerance_inputs = none.shadow_inputs = 1;
  none.exact_note = "it is not";
  Add(none, 0, "y", f.Judge());
  EXPECT_THAT(EstablishedTexts({&none}),
              ElementsAre(testing::AllOf(HasSubstr("not established on 1 input: 0.1 %"),
                                         HasSubstr("no exact trial: it is not"),
                                         testing::Not(HasSubstr("equal in exact arithmetic up")))));
}

TEST(Established, CompareExactlyIsBitForBit) {
  const std::vector<double> truth = {1, -2, 0};
  std::vector<float> got = {1, -2, -0.0F};
  task::Output want;
  want.shape = {3};
  want.truth = TensorOf(truth, {3}, DType::kF64);
  EXPECT_TRUE(CompareExactly(TensorOf(got, {3}, DType::kF32), want).ok);
  got[1] = std::nextafter(-2.0F, 0.0F);
  const records::Comparison c = CompareExactly(TensorOf(got, {3}, DType::kF32), want);
  EXPECT_FALSE(c.ok);
  EXPECT_EQ(c.code, "not_exact");
  EXPECT_THAT(c.first_wrong[0].index, ElementsAre(1));
  got[1] = NAN;
  EXPECT_FALSE(CompareExactly(TensorOf(got, {3}, DType::kF32), want).ok);
}

}  // namespace
}  // namespace cupel::judge
