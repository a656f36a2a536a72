// Compares two runs of a suite: faster, slower, broken, fixed. The runs were not timed together, so
// a difference must meet two conditions. It must be larger than the change of PyTorch itself, which
// is the same in both runs. And it must be significant in a Mann-Whitney test with Holm's
// correction for all comparisons.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "report/suite/suite.h"

namespace cupel::report {

enum class Change { kSame, kFaster, kSlower, kBroken, kFixed, kNew, kGone, kNotCompared };
const char* Name(Change change);  // "no difference", "faster", …, "not compared"

struct SettingChange {
  std::string id;
  Change change = Change::kSame;
  bool estimate = false;                 // the ratio is of two estimates by the emulator
  std::optional<stats::Interval> ratio;  // time in B over time in A
  std::optional<double> p;               // of "not beyond the margin", adjusted for all comparisons
  std::string note;
};

struct ItemChange {
  std::string id, task, direction, kernel;
  Change change = Change::kSame;  // of its decision; if that is the same, the worst of its settings
  std::string before, after;      // decisions; empty if there is none
  std::string note;               // why it broke, or other differences
  std::vector<SettingChange> settings;
};

struct Comparison {
  std::vector<ItemChange> items;
  double margin = 0;          // relative; smaller changes are not reported
  size_t baseline_pairs = 0;  // times of PyTorch that both runs have
  double baseline_drift = 0;  // the 95 % quantile of their relative changes
  size_t tests = 0;           // number of comparisons for which the p-values are adjusted
  std::vector<std::string> notes;

  size_t Count(Change change) const;
  /// True if an item broke or became slower, or an accepted item is missing in the second run.
  bool worse() const;
};

Comparison Compare(const Suite& a, const Suite& b);
/// "cupel.suite-comparison/1".
Json ToJson(const Comparison& comparison);
std::string CompareText(const Comparison& comparison, int width = 0);

}  // namespace cupel::report
