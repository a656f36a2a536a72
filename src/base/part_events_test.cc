// SPDX-License-Identifier: Apache-2.0
#include "base/part_events.h"

#include <gtest/gtest.h>

#include <string>

namespace cupel {
namespace {

class Last final : public Events {
 public:
  void Show(const Progress& progress) override { shown = progress; }
  void Note(std::string_view line) override { note = line; }
  Progress shown;
  std::string note;
};

TEST(PartEvents, PassesPartsOnUntilTheWholeIsKnown) {
  Last last;
  PartEvents events(last);
  events.Show({"trial 2", 1, 5, "trials"});
  EXPECT_EQ(last.shown.done, 1);
  EXPECT_EQ(last.shown.unit, "trials");
  events.Note("a remark");
  EXPECT_EQ(last.note, "a remark");
}

TEST(PartEvents, KeepsTheCountsOfTheWhole) {
  Last last;
  PartEvents events(last);
  events.ShowWhole({"judging", 3, 8, "kernels"});
  events.Show({"trial 2", 1, 5, "trials"});
  EXPECT_EQ(last.shown.stage, "trial 2");
  EXPECT_EQ(last.shown.done, 3);
  EXPECT_EQ(last.shown.total, 8);
  EXPECT_EQ(last.shown.unit, "kernels");
  events.ShowWhole({"", 4, 8, "kernels"});
  EXPECT_EQ(last.shown.stage, "trial 2");
  EXPECT_EQ(last.shown.done, 4);
}

}  // namespace
}  // namespace cupel
