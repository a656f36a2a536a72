// What became of a suite from one run to another: faster, slower, broken, mended. Times were not
// taken side by side, so two things must hold before a difference is claimed: that it is larger
// than what PyTorch itself, which is the same in both runs, moved by, and that it would survive a
// Mann-Whitney test among all the others (Holm). SPDX-License-Identifier: Apache-2.0
#pragma once

#include "report/suite.h"

namespace cupel::report {

enum class Change { kSame, kFaster, kSlower, kBroken, kMended, kNew, kGone, kNotCompared };
const char* Name(Change change);  // "no difference", "faster", …, "not compared"

struct SettingChange {
  std::string id;
  Change change = Change::kSame;
  bool estimate = false;                 // the ratio is that of two estimates of the emulator
  std::optional<stats::Interval> ratio;  // time in B over time in A
  std::optional<double> p;               // of "not beyond the margin", adjusted for all comparisons
  std::string note;
};

struct ItemChange {
  std::string id, task, direction, kernel;
  Change change = Change::kSame;  // broken before slower before faster, of its settings too
  std::string before, after;      // decisions; empty where there is none
  std::string note;               // why it broke; what else is different
  std::vector<SettingChange> settings;
};

struct Comparison {
  std::vector<ItemChange> items;
  double margin = 0;          // relative; smaller changes are not told
  size_t baseline_pairs = 0;  // settings at which PyTorch was timed in both runs
  double baseline_drift = 0;  // by how much it moved at nineteen of twenty of them
  size_t tests = 0;           // comparisons that the p-values are adjusted for
  std::vector<std::string> notes;

  size_t Count(Change change) const;
  /// Something broke or got slower, or was accepted and is gone.
  bool worse() const;
};

Comparison Compare(const Suite& a, const Suite& b);
/// "cupel.suite-comparison/1".
Json ToJson(const Comparison& comparison);
std::string CompareText(const Comparison& comparison, int width = 0);

}  // namespace cupel::report
