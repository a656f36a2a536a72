// SPDX-License-Identifier: Apache-2.0
#include "report/suite_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stats/unpaired.h"

namespace cupel::report {
namespace {

constexpr double kAlpha = 0.01;
constexpr double kConfidence = 0.99;
/// Clocks, temperature and where code and data lie move a time by this much from run to run.
constexpr double kLeastMargin = 0.02;
/// Estimates are the same each time but for what they were sampled from.
constexpr double kEstimateMargin = 0.01;
/// Estimates follow the inputs: of other ones they move by some per cent.
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

/// Calls `found` for every setting that both runs have, of items that both have.
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

/// By how much eager PyTorch and torch.compile moved; nothing is known of fewer than five.
void MeasureDrift(const Suite& a, const std::map<std::string, const SuiteResult*>& others,
                  Comparison& comparison) {
  std::vector<double> moved;
  ForEachPair(a, others, [&](const SuiteSetting& before, const SuiteSetting& after) {
    if (before.description != after.description) return;
    for (const auto& [name, time] : before.baselines) {
      const auto then = after.baselines.find(name);
      if (then == after.baselines.end()) continue;
      moved.push_back(std::abs(std::log(then->second.us.estimate / time.us.estimate)));
    }
  });
  comparison.baseline_pairs = moved.size();
  if (!moved.empty()) comparison.baseline_drift = std::expm1(stats::Quantile(moved, 0.95));
  comparison.margin = std::max(kLeastMargin, comparison.baseline_drift);
}

/// Two one-sided tests, each against a time that is moved by the margin; the better one counts
/// twice.
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

/// What a difference has to exceed.
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

/// What can be told without knowing of other comparisons; the test's outcome goes to `p`, and is
/// decided on later.
SettingChange CompareSetting(const SuiteSetting& a, const SuiteSetting* b, const Margins& margins,
                             Beyond& beyond) {
  SettingChange change;
  change.id = a.id;
  if (b == nullptr) {
    change.change = Change::kGone;
  } else if (a.description != b->description || a.reduced != b->reduced) {
    change.change = Change::kNotCompared;
    change.note = "its sizes are others";
  } else if (a.passed() != b->passed()) {
    // The task's reference may fail where PyTorch is another; that is not the kernel's.
    const std::string& failing = a.passed() ? b->status : a.status;
    const bool ours = failing == "no_reference" || failing == "cannot_judge";
    change.change = ours ? Change::kNotCompared : a.passed() ? Change::kBroken : Change::kMended;
    change.note = fmt::format("{}, then {}", a.status, b->status);
  } else if (a.time && b->time && Enough(*a.time, *b->time)) {
    change.ratio = stats::UnpairedRatio(b->time->samples, a.time->samples, kConfidence);
    beyond = TestBeyond(a.time->samples, b->time->samples, margins.times);
    change.p = beyond.p;
  } else if (a.estimate_us && b->estimate_us) {
    CompareEstimates(a, *b, margins.estimates, change);
  } else if (a.time.has_value() != b->time.has_value() || a.time) {
    change.change = Change::kNotCompared;
    change.note = a.time && b->time ? "too few samples" : "timed in one of the runs alone";
  }
  return change;
}

Change Worst(const ItemChange& item) {
  for (const Change change : {Change::kBroken, Change::kSlower, Change::kMended, Change::kFaster}) {
    for (const SettingChange& setting : item.settings) {
      if (setting.change == change) return change;
    }
  }
  const bool any = std::ranges::any_of(item.settings, [](const SettingChange& setting) {
    return setting.change != Change::kNotCompared;
  });
  return any || item.settings.empty() ? Change::kSame : Change::kNotCompared;
}

/// Decisions before settings: of a kernel that is no longer right no time matters.
Change ByDecision(const SuiteResult& a, const SuiteResult& b) {
  for (const char* none : {"pending", "error"}) {  // an error is cupel's: nothing is found
    if (a.decision == none || b.decision == none) return Change::kNotCompared;
  }
  if (a.accepted() && !b.accepted()) return Change::kBroken;
  if (!a.accepted() && b.accepted()) return Change::kMended;
  return a.is_unfinished || b.is_unfinished ? Change::kNotCompared : Change::kSame;
}

/// A test that is still to be decided on.
struct Tested {
  size_t item, setting;
  Beyond beyond;
};

ItemChange CompareItem(const SuiteResult& a, const SuiteResult& b, const Margins& margins,
                       size_t index, std::vector<Tested>& tested) {
  ItemChange item{a.id,       a.task,     a.direction, a.kernel, ByDecision(a, b),
                  a.decision, b.decision, "",          {}};
  if (item.change == Change::kBroken) item.note = b.code + ": " + b.reason;
  if (item.change == Change::kNotCompared)
    item.note = "one of the runs has not judged or not timed it yet";
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

/// Corrects for all tests at once, and says what remains.
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

/// Of kernels that are compared: what one of the runs has not asked for says nothing, and is said.
void RemarkSettings(Comparison& comparison) {
  size_t gone = 0, added = 0;
  for (const ItemChange& item : comparison.items) {
    for (const SettingChange& setting : item.settings) {
      gone += setting.change == Change::kGone ? 1 : 0;
      added += setting.change == Change::kNew ? 1 : 0;
    }
  }
  if (gone + added == 0) return;
  comparison.notes.push_back(
      fmt::format("of the settings of kernels that both runs have, {} are in the first run alone, "
                  "{} in the second",
                  gone, added));
}

void Remark(const Suite& a, const Suite& b, Comparison& comparison) {
  const auto differ = [&](const char* what, const std::string& before, const std::string& after) {
    if (before == after) return;
    comparison.notes.push_back(fmt::format("{}: {}, then {}", what, before, after));
  };
  differ("engine", a.engine, b.engine);
  differ("device", a.device, b.device);
  differ("cupel", a.cupel, b.cupel);
  if (a.estimates() && b.estimates() && a.seed != b.seed) {
    comparison.notes.push_back(fmt::format(
        "the runs have other inputs (seed {}, then {}), which estimates follow: they differ where "
        "it is by more than {} %",
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
    case Change::kMended:
      return "mended";
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
  Remark(a, b, comparison);
  RemarkSettings(comparison);
  return comparison;
}

}  // namespace cupel::report
