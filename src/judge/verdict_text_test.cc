// SPDX-License-Identifier: Apache-2.0
#include "judge/verdict_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace cupel::judge {
namespace {

using testing::HasSubstr;
using testing::Not;

records::Comparison RightText() {
  records::Comparison c;
  c.ok = true;
  c.rms_error = 0.042;
  c.rms_limit = c.max_limit = 1;
  return c;
}

records::Comparison WrongText() {
  records::Comparison c;
  c.code = "wrong_result";
  c.message = "96 of 8192 elements are wrong, the largest error is 3.1 (limit 0.0012)";
  c.rms_error = c.max_error = 2500;
  c.rms_limit = c.max_limit = 1;
  c.first_wrong = {{{0, 96}, 0, 1.25}};
  return c;
}

records::Verdict Make(std::vector<records::Comparison> trials) {
  records::Verdict v;
  v.kernel_path = "/home/me/kernel.cu";
  v.task = "mnist_linear";
  v.device = "emu (h100)";
  v.seed = 42;
  records::SettingReport s;
  s.id = "single-0";
  s.status = records::SettingStatus::kPassed;
  s.description = "batch_size=64";
  s.counters.estimated_us = 11.25;
  s.counters.launches.resize(2);
  for (records::Comparison& c : trials) s.trials.push_back({1, c.ok, {c}});
  v.settings = {s};
  v.resources = {{"_Z6kernelILi64EEvPKfPfi", 38, 4096, 0, 0, 0, 0}};
  return Decide(std::move(v));
}

TEST(VerdictText, IsShortWhenAccepted) {
  EXPECT_EQ(VerdictText(Make({RightText(), RightText()})),
            R"(ACCEPTED: kernel.cu for mnist_linear forward on emu (h100)
  1 of 1 setting passed in 2 trials (fresh inputs, compared with float64); the largest error is 4.2
  % of the limit (single-0)
  estimated 11.25 us per call at single-0 in 2 launches (an estimate from counted work, not a
  measurement); host code 0 us per call
  kernel<64>: 38 registers, 4096 B shared, no spills
)");
}

TEST(VerdictText, ListsReasonsElementsAndSettings) {
  const std::string text = VerdictText(Make({RightText(), WrongText()}));
  EXPECT_THAT(text, HasSubstr("REJECTED: kernel.cu"));
  EXPECT_THAT(text, HasSubstr("  1. wrong_result at single-0 trial 1 output 0\n"
                              "     96 of 8192 elements are wrong"));
  EXPECT_THAT(text, HasSubstr("[0, 96]: got 0, wanted 1.25"));
  EXPECT_THAT(text, HasSubstr("single-0  failed  1/2      2500 x    11.25 us  batch_size=64\n"));
}

TEST(VerdictText, RemovesControlCharactersAndWraps) {
  records::Verdict v = Make({WrongText()});
  v.reasons[0].message =
      "evil \x1b[2J\r \xc2\x9b"
      "0m " +
      std::string(300, 'x') + " tail µ";
  v.task = "a\nREJECTED";
  const std::string text = VerdictText(v);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, Not(HasSubstr("\xc2\x9b")));
  EXPECT_THAT(text, HasSubstr("tail µ"));
  EXPECT_THAT(text, HasSubstr("for a REJECTED forward"));
  EXPECT_THAT(VerdictText(v, {true, 100, false}), HasSubstr("\x1b[1;31mREJECTED\x1b[0m"));
}

TEST(VerdictText, ReportsErrorShare) {
  EXPECT_EQ(ErrorShare(RightText()), "4.2 %");
  EXPECT_EQ(ErrorShare(WrongText()), "2500 x");
  records::Comparison exact;
  exact.ok = true;
  EXPECT_EQ(ErrorShare(exact), "exact");
}

TEST(VerdictText, ReportsSpills) {
  records::Verdict v = Make({RightText()});
  v.resources[0].spill_stores = 64;
  EXPECT_THAT(VerdictText(v), HasSubstr("SPILLS 64 B stored"));
}

}  // namespace
}  // namespace cupel::judge
