// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

assay::Timing TimingOf(const std::string& name, double us, bool is_baseline) {
  assay::Timing timing;
  timing.name = name;
  timing.is_baseline = is_baseline;
  timing.samples.cold.assign(40, us);
  timing.median = {us, 0.99 * us, 1.01 * us, 0.96};
  timing.warm_us = 0.9 * us;
  timing.host_us = us + 7;
  timing.roofline = 0.5;
  timing.verified = 9;
  timing.visible = 5;
  return timing;
}

assay::Comparison Compared(size_t a, size_t b, double ratio, stats::Difference difference) {
  return {a, b, {{ratio, ratio - 0.01, ratio + 0.01, 0.99}, difference}};
}

/// Two baselines and two kernels at two settings. fast.cu takes 1/2 of eager's time at the first
/// setting and 1/8 at the second.
BenchReport Report() {
  using stats::Difference;
  BenchReport report;
  report.task = "mnist_linear";
  report.direction = "forward";
  report.gpu = "NVIDIA H200";
  report.torch = "2.11.0";
  report.ceilings = {report.gpu, 4e12, 3.9e12, 60e12, 0, 0, 1.2};
  for (const char* name : {"fast.cu", "slow.cu"}) {
    judge::Verdict verdict;
    verdict.decision = judge::Decision::kAccepted;
    report.kernels.push_back({name, verdict});
  }
  for (const double ratio : {0.5, 0.125}) {
    assay::SettingTimes setting;
    setting.id = ratio == 0.5 ? "single-0" : "multi-1";
    setting.description = "batch_size=64";
    setting.timings = {TimingOf("eager", 8, true), TimingOf("compile", 1500, true),
                       TimingOf("fast.cu", 8 * ratio, false), TimingOf("slow.cu", 8.02, false)};
    setting.comparisons = {
        Compared(2, 0, ratio, Difference::kFaster), Compared(2, 1, 0.25, Difference::kFaster),
        Compared(3, 0, 1.0025, Difference::kNone), Compared(3, 1, 2, Difference::kSlower),
        Compared(3, 2, 2.005, Difference::kSlower)};
    setting.sets = 3;
    setting.overhead_us = 1.25;
    setting.after = {1980, 2619, 55, 431, {"power cap"}, 1};
    report.settings.push_back(setting);
  }
  return report;
}

std::string TextOf(const BenchReport& report) { return BenchText(report, {}); }

/// The first line that begins with `word`. Several spaces in a row become one.
std::string Row(const std::string& text, const std::string& word) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string row;
    for (const char c : text.substr(begin, end - begin)) {
      if (c != ' ' || (!row.empty() && row.back() != ' ')) row += c;
    }
    if (row.rfind(word, 0) == 0) return row;
    begin = end + 1;
  }
  return "";
}

TEST(BenchText, HasARowForEachKernelAndAColumnForEachBaseline) {
  const std::string text = TextOf(Report());
  EXPECT_THAT(text, HasSubstr("mnist_linear forward on NVIDIA H200, PyTorch 2.11.0"));
  EXPECT_EQ(Row(text, "cold"), "cold +- warm host vs eager vs compile roofline");
  EXPECT_EQ(Row(text, "eager "), "eager 8.00 us 1.0 % 7.20 us 15.0 us 50 %");
  EXPECT_EQ(Row(text, "compile "), "compile 1.500 ms 1.0 % 1.350 ms 1.507 ms 50 %");
  EXPECT_EQ(Row(text, "fast.cu "), "fast.cu 4.00 us 1.0 % 3.60 us 11.0 us 2.00 x 4.00 x 50 %");
  // "=" marks no difference.
  EXPECT_EQ(Row(text, "slow.cu 8"), "slow.cu 8.02 us 1.0 % 7.22 us 15.0 us 1.00 x = 0.50 x 50 %");
}

TEST(BenchText, ComparesKernelsWithEachOther) {
  const std::string text = TextOf(Report());
  EXPECT_THAT(text, HasSubstr("slow.cu vs fast.cu: slower, time ratio 2.0050 [1.9950, 2.0150]"));
  EXPECT_THAT(text, Not(HasSubstr("cu vs eager")));
}

TEST(BenchText, ShowsGeometricMeansForSeveralSettings) {
  const std::string text = TextOf(Report());
  EXPECT_THAT(text, HasSubstr("fast.cu: 4.00 x as fast as eager (geometric mean over 2 settings)"));
  BenchReport one = Report();
  one.settings.pop_back();
  EXPECT_THAT(TextOf(one), Not(HasSubstr("geometric mean"))) << "of one setting";
}

TEST(BenchText, ShowsNoIntervalForTooFewSamples) {
  BenchReport report = Report();
  report.settings[0].timings[2].median.confidence = 0.94;
  EXPECT_EQ(Row(TextOf(report), "fast.cu "),
            "fast.cu 4.00 us ? 3.60 us 11.0 us 2.00 x 4.00 x 50 %");
}

TEST(BenchText, RefusedKernelsHaveAReasonAndNoRow) {
  BenchReport report = Report();
  assay::SettingTimes& setting = report.settings[0];
  setting.timings[2].refused = {"wrong_timed_result", "it \x1b[31mremembers", "output 0"};
  setting.comparisons.erase(setting.comparisons.begin(), setting.comparisons.begin() + 2);
  assay::Timing compile;
  compile.name = "max-autotune";
  compile.is_baseline = true;
  compile.refused = {"unsupported", "no compiler", ""};
  setting.timings.push_back(compile);
  const std::string text = TextOf(report);
  const std::string first = text.substr(0, text.find("multi-1"));
  EXPECT_EQ(Row(first, "fast.cu "), "");
  EXPECT_THAT(Row(first, "fast.cu:"), HasSubstr("wrong_timed_result: it "));
  EXPECT_THAT(first, Not(HasSubstr("\x1b"))) << "escape sequences reach the terminal";
  EXPECT_EQ(Row(first, "max-autotune:"), "max-autotune: unsupported: no compiler");
  EXPECT_THAT(text, Not(HasSubstr("vs max-autotune")));
}

TEST(BenchText, RejectedKernelsHaveReasonsAndNoTimes) {
  BenchReport report = Report();
  report.settings.clear();
  report.kernels.resize(1);
  report.kernels[0].verdict.decision = judge::Decision::kRejected;
  report.kernels[0].verdict.reasons = {{"out_of_bounds", "reads beyond x", "kernel.cu:3"}};
  const std::string text = TextOf(report);
  EXPECT_THAT(text, HasSubstr("reads beyond x"));
  EXPECT_THAT(text, Not(HasSubstr("mnist_linear forward on")));
}

TEST(BenchText, RemarksShowOdditiesEnergyAndGpuState) {
  BenchReport report = Report();
  report.settings[0].timings[2].oddities = {"times scatter by 10 %"};
  report.settings[0].timings[2].energy = engine::EnergyUse{0.002, 500, 100};
  report.settings[0].note = "nothing else to say";
  const std::string text = TextOf(report);
  EXPECT_THAT(text, HasSubstr("fast.cu: times scatter by 10 %"));
  EXPECT_THAT(text, HasSubstr("fast.cu: 2 mJ per call at 500 W"));
  EXPECT_THAT(text, HasSubstr("GPU: 1980 MHz, 55 C, 431 W, slowed by power cap; 3 input sets; "
                              "clock overhead 1.25 us"));
  EXPECT_THAT(text, HasSubstr("nothing else to say"));
}

TEST(BenchJson, HasTheTableAndTheSamples) {
  BenchReport report = Report();
  report.settings[0].timings[3].refused = {"below_roofline", "too fast", "single-0"};
  const Json json = BenchJson(report);
  EXPECT_EQ(json["schema"], "cupel.bench/1");
  EXPECT_EQ(json["task"], "mnist_linear");
  EXPECT_EQ(json["torch"], "2.11.0");
  EXPECT_EQ(json["ceilings"]["read_bytes"], 4e12);
  ASSERT_EQ(json["kernels"].size(), 2u);
  EXPECT_EQ(json["kernels"][0]["name"], "fast.cu");
  EXPECT_TRUE(json["kernels"][0]["verdict"].is_object());
  ASSERT_EQ(json["settings"].size(), 2u);
  const Json& setting = json["settings"][0];
  EXPECT_EQ(setting["id"], "single-0");
  EXPECT_EQ(setting["input_sets"], 3);
  EXPECT_EQ(setting["clock_overhead_us"], 1.25);
  EXPECT_EQ(setting["after"]["throttled_by"], Json::array({"power cap"}));
  const Json& eager = setting["timings"][0];
  EXPECT_EQ(eager["baseline"], true);
  EXPECT_FALSE(eager.contains("verified_replays"));
  const Json& fast = setting["timings"][2];
  EXPECT_EQ(fast["us"]["estimate"], 4);
  EXPECT_EQ(fast["samples"], 40);
  EXPECT_EQ(fast["samples_us"].size(), 40u);
  EXPECT_EQ(fast["verified_replays"], 9);
  EXPECT_EQ(fast["visible_secrets"], 5);
  EXPECT_FALSE(fast.contains("refused"));
  EXPECT_EQ(setting["timings"][3]["refused"]["code"], "below_roofline");
  EXPECT_EQ(setting["comparisons"][0]["a"], "fast.cu");
  EXPECT_EQ(setting["comparisons"][0]["b"], "eager");
  EXPECT_EQ(setting["comparisons"][0]["a_is"], "faster");
  const Json& mean = json["geometric_means"][1];
  EXPECT_EQ(mean["a"], "fast.cu");
  EXPECT_EQ(mean["b"], "eager");
  EXPECT_NEAR(mean["ratio"].get<double>(), 0.25, 1e-12);
  EXPECT_EQ(mean["settings"], 2);
}

TEST(BaselinesOf, ParsesNamesSeparatedByCommas) {
  using oracle::BaselineKind;
  const auto of = [](const std::string& names) {
    const auto kinds = BaselinesOf(names);
    EXPECT_TRUE(kinds.has_value()) << names;
    return kinds.value_or(std::vector<BaselineKind>());
  };
  EXPECT_THAT(of("eager,max-autotune"),
              ElementsAre(BaselineKind::kEager, BaselineKind::kMaxAutotune));
  EXPECT_THAT(of("compile"), ElementsAre(BaselineKind::kCompile));
  EXPECT_TRUE(of("none").empty());
  EXPECT_THAT(of("eager,eager"), ElementsAre(BaselineKind::kEager)) << "timed twice";
  for (const char* bad : {"fast", "eager,none", "Eager", "eager compile", ",eager"}) {
    const auto kinds = BaselinesOf(bad);
    ASSERT_FALSE(kinds.has_value()) << bad;
    EXPECT_EQ(kinds.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(kinds.error().remedy, HasSubstr("eager, compile, max-autotune"));
  }
}

}  // namespace
}  // namespace cupel::cli
