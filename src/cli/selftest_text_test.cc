// SPDX-License-Identifier: Apache-2.0
#include "cli/selftest_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::cli {
namespace {

TEST(SelftestText, ShowsHowManyCheatsAreNotAccepted) {
  app::Specimen cheat;
  cheat.name = "mustfail/cheat";
  cheat.decisions = {"rejected"};
  cheat.codes = {"impure"};
  app::SelftestReport report;
  for (const char* decision : {"rejected", "rejected", "accepted", "crashed"}) {
    report.all.push_back({&cheat, {}});
    report.all.back().outcome.decision = decision;
  }
  report.seconds = 3;
  EXPECT_THAT(SelftestText(report), testing::HasSubstr("2 of 4 not accepted (50.0 %)"));
}

}  // namespace
}  // namespace cupel::cli
