// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/measure/bench_testing.h"

namespace cupel::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string TextOf(const records::Bench& report) { return BenchText(report, {}); }

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
  const std::string text = TextOf(app::TestBench());
  EXPECT_THAT(text, HasSubstr("mnist_linear forward on NVIDIA H200, PyTorch 2.11.0"));
  EXPECT_EQ(Row(text, "cold"), "cold +- warm host vs eager vs compile roofline");
  EXPECT_EQ(Row(text, "eager "), "eager 8.00 us 1.0 % 7.20 us 15.0 us 50 %");
  EXPECT_EQ(Row(text, "compile "), "compile 1.500 ms 1.0 % 1.350 ms 1.507 ms 50 %");
  EXPECT_EQ(Row(text, "fast.cu "), "fast.cu 4.00 us 1.0 % 3.60 us 11.0 us 2.00 x 4.00 x 50 %");
  // "=" marks no difference.
  EXPECT_EQ(Row(text, "slow.cu 8"), "slow.cu 8.02 us 1.0 % 7.22 us 15.0 us 1.00 x = 0.50 x 50 %");
}

TEST(BenchText, NamesTheUnitOfTheRoofline) {
  records::Bench report = app::TestBench();
  EXPECT_THAT(TextOf(report), Not(HasSubstr("roofline: of"))) << "operations are not known";
  report.settings[0].flops = 1e9;
  report.settings[0].unit = records::ArithmeticUnit::kSixteenBit;
  EXPECT_THAT(TextOf(report), HasSubstr("roofline: of memory and 16-bit tensor cores"));
}

TEST(BenchText, ComparesKernelsWithEachOther) {
  const std::string text = TextOf(app::TestBench());
  EXPECT_THAT(text, HasSubstr("slow.cu vs fast.cu: slower, time ratio 2.0050 [1.9950, 2.0150]"));
  EXPECT_THAT(text, Not(HasSubstr("cu vs eager")));
}

TEST(BenchText, ShowsGeometricMeansForSeveralSettings) {
  const std::string text = TextOf(app::TestBench());
  EXPECT_THAT(text, HasSubstr("fast.cu: 4.00 x as fast as eager (geometric mean over 2 settings)"));
  records::Bench one = app::TestBench();
  one.settings.pop_back();
  EXPECT_THAT(TextOf(one), Not(HasSubstr("geometric mean"))) << "of one setting";
}

TEST(BenchText, ShowsNoIntervalForTooFewSamples) {
  records::Bench report = app::TestBench();
  report.settings[0].timings[2].median.confidence = 0.94;
  EXPECT_EQ(Row(TextOf(report), "fast.cu "),
            "fast.cu 4.00 us ? 3.60 us 11.0 us 2.00 x 4.00 x 50 %");
}

TEST(BenchText, RefusedKernelsHaveAReasonAndNoRow) {
  records::Bench report = app::TestBench();
  records::SettingTimes& setting = report.settings[0];
  setting.timings[2].refused = {"wrong_timed_result", "it \x1b[31mremembers", "output 0"};
  setting.comparisons.erase(setting.comparisons.begin(), setting.comparisons.begin() + 2);
  records::Timing compile;
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
  records::Bench report = app::TestBench();
  report.settings.clear();
  report.kernels.resize(1);
  report.kernels[0].verdict.decision = records::Decision::kRejected;
  report.kernels[0].verdict.reasons = {{"out_of_bounds", "reads beyond x", "kernel.cu:3"}};
  const std::string text = TextOf(report);
  EXPECT_THAT(text, HasSubstr("reads beyond x"));
  EXPECT_THAT(text, Not(HasSubstr("mnist_linear forward on")));
}

TEST(BenchText, RemarksShowOdditiesEnergyAndGpuState) {
  records::Bench report = app::TestBench();
  report.settings[0].timings[2].oddities = {"times scatter by 10 %"};
  report.settings[0].timings[2].energy = records::EnergyUse{0.002, 500, 100};
  report.settings[0].note = "nothing else to say";
  const std::string text = TextOf(report);
  EXPECT_THAT(text, HasSubstr("fast.cu: times scatter by 10 %"));
  EXPECT_THAT(text, HasSubstr("fast.cu: 2 mJ per call at 500 W"));
  EXPECT_THAT(text, HasSubstr("GPU: 1980 MHz, 55 C, 431 W, slowed by power cap; 3 input sets; "
                              "clock overhead 1.25 us"));
  EXPECT_THAT(text, HasSubstr("nothing else to say"));
}

}  // namespace
}  // namespace cupel::cli
