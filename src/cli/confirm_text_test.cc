// SPDX-License-Identifier: Apache-2.0
#include "cli/confirm_text.h"

#include <gtest/gtest.h>

namespace cupel::cli {
namespace {

TEST(ConfirmText, ShowsResultsAndWhatIsMissing) {
  const Json way{{"mean_us", 12.5}, {"median_us", 12.0}};
  const Json record{
      {"task", "t\x1b[2J"},
      {"direction", "forward"},
      {"gpu", "Some GPU"},
      {"torch", "2.11"},
      {"caveat", "for comparison, not evidence"},
      {"sandbox", {{"level", "sandbox"}, {"missing", {"Landlock"}}}},
      {"build", {{"failure", ""}}},
      {"settings",
       {{{"id", "single-0"},
         {"description", "n=1"},
         {"kernel",
          {{"right", false},
           {"reasons", {{{"code", "wrong_result"}, {"message", "off"}, {"where", "last call"}}}},
           {"ways", {{"events", way}, {"do_bench", {{"failure", "no triton"}}}}}}},
         {"compile", {{"failure", "no compiler"}}}}}}};
  const std::string text = ConfirmText(record);
  for (const char* part :
       {"not evidence", "not in force: Landlock", "NOT CORRECT", "last call", "12.00 (12.50)",
        "kernel, do_bench: no triton", "compile: no compiler"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in:\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace cupel::cli
