// SPDX-License-Identifier: Apache-2.0
#include "report/suite/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stats/unpaired.h"

namespace cupel::report {
namespace {

constexpr double kAlpha = 0.01;
constexpr double kConfidence = 0.99;
/// Times vary this much between runs, due to clocks, temperature and the placement of code and
/// data.
constexpr double kLeastMargin = 0.02;
/// Estimates only vary with the sample of blocks.
constexpr double kEstimateMargin = 0.01;
/// Estimates depend on the inputs: with other inputs they vary by some per cent.
constexpr double kOtherInputsMargin = 0.05;

const SuiteSetting* SettingOf(const SuiteResult& item, const std::string& id) {
  for (const SuiteSetting& setting : item.settings) {
    if (setting.id == id) return &setting;
  }
  return nullptr;
}

bool Enough(const SuiteTime& a, const SuiteTime& b) {
  return a.samples.size() >= stats::kFewestUnpaired && b.samples.size() >= stats::kFewestUnpaired;
}

/// Calls `found` for every setting that both runs have, in items that both have.
template <typename Found>
void ForEachPair(const Suite& a, const std::map<std::string, const SuiteResult*>& others,
                 Found found) {
  for (const SuiteResult& item : a.items) {
    const auto other = others.find(item.id);
    if (other == others.end()) continue;
    for (const SuiteSetting& setting : item.settings) {
      if (const SuiteSetting* then = SettingOf(*other->second, setting.id)) found(setting, *then);
    }
  }
}

/// Measures by how much eager PyTorch and torch.compile changed between the runs.
void MeasureDrift(const Suite& a, const std::map<std::string, const SuiteResult*>& others,
                  Comparison& comparison) {
  std::vector<double> moved;
  ForEachPair(a, others, [&](const SuiteSetting& before, const SuiteSetting& after) {
    if (before.description != after.description) return;
    // Only these two are the same code in both runs. A library may have been upgraded in between.
    for (const char* name : {"eager", "compile"}) {
      const auto now = before.baselines.find(name), then = after.baselines.find(name);
      if (now == before.baselines.end() || then == after.baselines.end()) continue;
      moved.push_back(std::abs(std::log(then->second.us.estimate / now->second.us.estimate)));
    }
  });
  comparison.baseline_pairs = moved.size();
  if (!moved.empty()) comparison.baseline_drift = std::expm1(stats::Quantile(moved, 0.95));
  comparison.margin = std::max(kLeastMargin, comparison.baseline_drift);
}

/// Two one-sided tests, each against times scaled by the margin. The smaller p-value is doubled.
struct Beyond {
  double p = 1;
  bool slower = false;
};
Beyond TestBeyond(const std::vector<double>& a, const std::vector<double>& b, double margin) {
  const auto moved = [&](std::vector<double> times) {
    for (double& time : times) time *= 1 + margin;
    return times;
  };
  const double slower = stats::GreaterP(b, moved(a)), faster = stats::GreaterP(a, moved(b));
  return {std::min(1.0, 2 * std::min(slower, faster)), slower < faster};
}

/// The margins that a difference must exceed.
struct Margins {
  double times, estimates;
};

void CompareEstimates(const SuiteSetting& a, const SuiteSetting& b, double margin,
                      SettingChange& change) {
  const double ratio = *b.estimate_us / *a.estimate_us;
  change.estimate = true;
  change.ratio = stats::Interval{ratio, ratio, ratio, 0};
  if (ratio > 1 + margin) change.change = Change::kSlower;
  if (ratio < 1 / (1 + margin)) change.change = Change::kFaster;
}

/// Compares two settings. The result may still depend on the other comparisons: the test's p-value
/// is stored in `change.p` and `beyond`, and Decide uses it later.
SettingChange CompareSetting(const SuiteSetting& a, const SuiteSetting* b, const Margins& margins,
                             Beyond& beyond) {
  SettingChange change;
  change.id = a.id;
  if (b == nullptr) {
    change.change = Change::kGone;
  } else if (a.description != b->description || a.reduced != b->reduced) {
    change.change = Change::kNotCompared;
    change.note = "different sizes";
  } else if (a.passed() != b->passed()) {
    // The task's reference may fail with another PyTorch, which is not the kernel's fault.
    const std::string& failing = a.passed() ? b->status : a.status;
    const bool ours = failing == "no_reference" || failing == "cannot_judge";
    change.change = ours ? Change::kNotCompared : a.passed() ? Change::kBroken : Change::kFixed;
    change.note = fmt::format("{}, then {}", a.status, b->status);
  } else if (a.time && b->time && Enough(*a.time, *b->time)) {
    change.ratio = stats::UnpairedRatio(b->time->samples, a.time->samples, kConfidence);
    beyond = TestBeyond(a.time->samples, b->time->samples, margins.times);
    change.p = beyond.p;
  } else if (a.estimate_us && b->estimate_us) {
    CompareEstimates(a, *b, margins.estimates, change);
  } else if (a.time.has_value() != b->time.has_value() || a.time) {
    change.change = Change::kNotCompared;
    change.note = a.time && b->time ? "too few samples" : "timed in only one of the runs";
  }
  return change;
}

Change Worst(const ItemChange& item) {
  for (const Change change : {Change::kBroken, Change::kSlower, Change::kFixed, Change::kFaster}) {
    for (const SettingChange& setting : item.settings) {
      if (setting.change == change) return change;
    }
  }
  const bool any = std::ranges::any_of(item.settings, [](const SettingChange& setting) {
    return setting.change != Change::kNotCompared;
  });
  return any || item.settings.empty() ? Change::kSame : Change::kNotCompared;
}

/// Decisions come before settings: the times of a kernel that is no longer accepted do not matter.
Change ByDecision(const SuiteResult& a, const SuiteResult& b) {
  for (const char* none : {"pending", "error"}) {  // "error": cupel failed, so there is no result
    if (a.decision == none || b.decision == none) return Change::kNotCompared;
  }
  if (a.accepted() && !b.accepted()) return Change::kBroken;
  if (!a.accepted() && b.accepted()) return Change::kFixed;
  return a.is_unfinished || b.is_unfinished ? Change::kNotCompared : Change::kSame;
}

/// A test whose result Decide evaluates.
struct Tested {
  size_t item, setting;
  Beyond beyond;
};

ItemChange CompareItem(const SuiteResult& a, const SuiteResult& b, const Margins& margins,
                       size_t index, std::vector<Tested>& tested) {
  ItemChange item{a.id,       a.task,     a.direction, a.kernel, ByDecision(a, b),
                  a.decision, b.decision, "",          {}};
  if (item.change == Change::kBroken) item.note = b.code + ": " + b.reason;
  if (item.change == Change::kNotCompared) item.note = "not yet judged or timed in one of the runs";
  if (a.task_sha256 != b.task_sha256)
    item.note += (item.note.empty() ? "" : "; ") + std::string("the task has changed");
  if (item.change != Change::kSame || !a.accepted()) return item;
  for (const SuiteSetting& setting : a.settings) {
    Beyond beyond;
    item.settings.push_back(CompareSetting(setting, SettingOf(b, setting.id), margins, beyond));
    if (item.settings.back().p) tested.push_back({index, item.settings.size() - 1, beyond});
  }
  for (const SuiteSetting& setting : b.settings) {
    if (SettingOf(a, setting.id) != nullptr) continue;
    item.settings.push_back({setting.id, Change::kNew, false, {}, {}, ""});
  }
  return item;
}

/// Corrects the p-values for the number of tests, and sets the significant changes.
void Decide(const std::vector<Tested>& tested, Comparison& comparison) {
  std::vector<double> p;
  p.reserve(tested.size());
  for (const Tested& test : tested) p.push_back(test.beyond.p);
  const std::vector<double> adjusted = stats::HolmAdjusted(p);
  for (size_t i = 0; i < tested.size(); ++i) {
    SettingChange& setting = comparison.items[tested[i].item].settings[tested[i].setting];
    setting.p = adjusted[i];
    if (adjusted[i] >= kAlpha) continue;
    setting.change = tested[i].beyond.slower ? Change::kSlower : Change::kFaster;
  }
  comparison.tests = tested.size();
}

/// Notes settings that only one of the runs has. They are not counted as changes.
void AddSettingNotes(Comparison& comparison) {
  size_t gone = 0, added = 0;
  for (const ItemChange& item : comparison.items) {
    for (const SettingChange& setting : item.settings) {
      gone += setting.change == Change::kGone ? 1 : 0;
      added += setting.change == Change::kNew ? 1 : 0;
    }
  }
  if (gone + added == 0) return;
  comparison.notes.push_back(
      fmt::format("of the settings of kernels in both runs, {} are only in the first run, "
                  "{} only in the second",
                  gone, added));
}

void AddSuiteNotes(const Suite& a, const Suite& b, Comparison& comparison) {
  const auto differ = [&](const char* what, const std::string& before, const std::string& after) {
    if (before == after) return;
    comparison.notes.push_back(fmt::format("{}: {}, then {}", what, before, after));
  };
  differ("engine", a.engine, b.engine);
  differ("device", a.device, b.device);
  differ("cupel", a.cupel, b.cupel);
  if (a.estimates() && b.estimates() && a.seed != b.seed) {
    comparison.notes.push_back(fmt::format(
        "the runs have different inputs (seed {}, then {}), and estimates depend on inputs: only "
        "differences above {} % are reported",
        a.seed, b.seed, kOtherInputsMargin * 100));
  }
  if (a.status != "finished") comparison.notes.push_back("the first run is not finished");
  if (b.status != "finished") comparison.notes.push_back("the second run is not finished");
}

}  // namespace

const char* Name(Change change) {
  switch (change) {
    case Change::kSame:
      return "no difference";
    case Change::kFaster:
      return "faster";
    case Change::kSlower:
      return "slower";
    case Change::kBroken:
      return "broken";
    case Change::kFixed:
      return "fixed";
    case Change::kNew:
      return "new";
    case Change::kGone:
      return "gone";
    case Change::kNotCompared:
      return "not compared";
  }
  return "?";
}

size_t Comparison::Count(Change change) const {
  return static_cast<size_t>(std::count_if(
      items.begin(), items.end(), [&](const ItemChange& item) { return item.change == change; }));
}

bool Comparison::worse() const {
  return std::any_of(items.begin(), items.end(), [](const ItemChange& item) {
    const bool lost = item.change == Change::kGone && item.before == "accepted";
    return lost || item.change == Change::kBroken || item.change == Change::kSlower;
  });
}

Comparison Compare(const Suite& a, const Suite& b) {
  Comparison comparison;
  std::map<std::string, const SuiteResult*> in_a, in_b;
  for (const SuiteResult& item : a.items) in_a[item.id] = &item;
  for (const SuiteResult& item : b.items) in_b[item.id] = &item;
  MeasureDrift(a, in_b, comparison);
  const Margins margins{comparison.margin, a.seed == b.seed ? kEstimateMargin : kOtherInputsMargin};
  std::vector<Tested> tested;
  for (const SuiteResult& item : a.items) {
    const auto other = in_b.find(item.id);
    if (other == in_b.end()) {
      comparison.items.push_back({item.id,
                                  item.task,
                                  item.direction,
                                  item.kernel,
                                  Change::kGone,
                                  item.decision,
                                  "",
                                  "",
                                  {}});
      continue;
    }
    comparison.items.push_back(
        CompareItem(item, *other->second, margins, comparison.items.size(), tested));
  }
  for (const SuiteResult& item : b.items) {
    if (in_a.count(item.id) > 0) continue;
    comparison.items.push_back(
        {item.id, item.task, item.direction, item.kernel, Change::kNew, "", item.decision, "", {}});
  }
  Decide(tested, comparison);
  for (ItemChange& item : comparison.items) {
    if (item.change == Change::kSame) item.change = Worst(item);
  }
  AddSuiteNotes(a, b, comparison);
  AddSettingNotes(comparison);
  return comparison;
}

}  // namespace cupel::report
