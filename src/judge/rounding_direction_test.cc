// Simulates outputs of bfloat16 that are rounded in different ways.
// SPDX-License-Identifier: Apache-2.0
#include "judge/rounding_direction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "judge/rounding_counter.h"
#include "judge/testing.h"

namespace cupel::judge {
namespace {

using testing::HasSubstr;

constexpr int kElements = 500;
/// Rounds one number; `factor` is the same for all elements of a call.
using Rounding = std::function<double(double number, double factor)>;

double Nearest(double number) {
  return BFloat16ToFloat(FloatToBFloat16(static_cast<float>(number)));
}
double TowardZero(double number) {
  const double unit = std::ldexp(1, std::ilogb(number) - 7);
  return std::trunc(number / unit) * unit;
}
double Up(double number) {
  const double unit = std::ldexp(1, std::ilogb(number) - 7);
  return std::ceil(number / unit) * unit;
}

/// `inputs` settings of one trial each.
std::vector<records::SettingReport> Settings(int inputs, const Rounding& rounding,
                                             bool is_reset = false) {
  Random random(5);
  std::vector<records::SettingReport> settings(static_cast<size_t>(inputs));
  for (records::SettingReport& setting : settings) {
    RoundingCounter counter(DType::kBF16);
    const double factor = 1 + random.Unit();
    for (int i = 0; i < kElements; ++i) {
      const double number = Normal(random) * factor;
      counter.Add(rounding(number, factor), number);
    }
    records::Comparison comparison;
    comparison.ok = true;
    comparison.rounding = counter.Results(0);
    records::TrialReport trial;
    trial.ok = true;
    trial.outputs = {comparison};
    setting.trials = {trial};
    records::EstablishedOutput followed;
    followed.elements = kElements;
    followed.reset = is_reset ? kElements : 0;
    setting.established.outputs = {followed};
  }
  return settings;
}

std::string ProblemOf(const std::vector<records::SettingReport>& settings) {
  const auto problem = FindRoundingProblem(settings);
  return problem ? problem->message : "";
}

TEST(RoundingDirection, AcceptsRoundingToTheNearest) {
  for (const bool is_reset : {false, true}) {
    EXPECT_EQ(ProblemOf(Settings(8, [](double x, double) { return Nearest(x); }, is_reset)), "");
  }
}

TEST(RoundingDirection, NamesTheDirection) {
  EXPECT_THAT(ProblemOf(Settings(2, [](double x, double) { return TowardZero(x); })),
              HasSubstr("toward zero"));
  EXPECT_THAT(ProblemOf(Settings(2, [](double x, double) { return -TowardZero(-x); })),
              HasSubstr("toward zero"));
  EXPECT_THAT(ProblemOf(Settings(2, [](double x, double) { return Up(x); })), HasSubstr(" up,"));
}

TEST(RoundingDirection, NeedsMoreThanOneInput) {
  EXPECT_EQ(ProblemOf(Settings(1, [](double x, double) { return TowardZero(x); })), "");
}

TEST(RoundingDirection, NamesTheSettings) {
  auto settings = Settings(3, [](double x, double) { return Up(x); });
  settings[1].trials.clear();
  const auto problem = FindRoundingProblem(settings);
  ASSERT_TRUE(problem);
  EXPECT_THAT(problem->settings, testing::ElementsAre(0, 2));
}

TEST(RoundingDirection, AcceptsARoundedFactorThatAllElementsShare) {
  const Rounding rounding = [](double x, double factor) {
    return Nearest(x / factor * Nearest(factor));
  };
  for (const bool is_reset : {false, true})
    EXPECT_EQ(ProblemOf(Settings(8, rounding, is_reset)), "");
}

TEST(RoundingDirection, AcceptsOneDirectionWithinHalfAUnit) {
  // x (1 + 2^-10) of a number of the type is always rounded down to x.
  EXPECT_EQ(ProblemOf(Settings(8, [](double x, double) { return x * (1 - 0x1p-10); })), "");
}

TEST(RoundingDirection, FindsABiasOnlyWhereEqualityIsNotEstablished) {
  const Rounding rounding = [](double x, double) { return Nearest(0.9985 * x); };
  EXPECT_EQ(ProblemOf(Settings(12, rounding)), "");
  EXPECT_THAT(ProblemOf(Settings(12, rounding, true)), HasSubstr("% too small on average"));
  EXPECT_EQ(ProblemOf(Settings(8, rounding, true)), "");
}

TEST(RoundingDirection, FindsSubnormalHalvesThatBecomeZero) {
  auto settings = Settings(1, [](double x, double) { return x; });
  records::RoundedResults& r = settings[0].trials[0].outputs[0].rounding;
  r.subnormal = 100;
  r.flushed = 100;
  EXPECT_EQ(ProblemOf(settings), "");  // nothing shows that other small numbers are right
  r.least_normal = r.least_right = 100;
  EXPECT_THAT(ProblemOf(settings), HasSubstr("100 of 100 results below float16's smallest"));
  r.flushed = 90;
  EXPECT_EQ(ProblemOf(settings), "");
}

TEST(RoundingDirection, IgnoresOtherInputs) {
  auto settings = Settings(3, [](double x, double) { return Up(x); });
  for (records::SettingReport& setting : settings) setting.trials[0].kind = "offset";
  EXPECT_EQ(ProblemOf(settings), "");
}

}  // namespace
}  // namespace cupel::judge
