// The results of a suite as data, read from JSON "cupel.suite/1" (docs/formats/suite.md). Scores,
// tables, pages and comparisons are all made from this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "stats/robust.h"

namespace cupel::report {

inline constexpr const char* kSuiteSchema = "cupel.suite/1";

/// A time measured on a GPU, in microseconds.
struct SuiteTime {
  stats::Interval us;                      // of the median
  std::vector<double> samples;             // may be empty
  std::optional<double> millijoules = {};  // of a call; only if it was measured
};

struct SuiteSetting {
  std::string id, kind, description, status;
  std::string derived;                // sizes that cupel derived from the task's first setting
  std::string reduced;                // sizes that replace the task's own on the emulator
  std::optional<double> over_limit;   // the largest error as a multiple of the limit
  std::optional<double> estimate_us;  // by the emulator, never measured
  std::optional<SuiteTime> time;
  std::map<std::string, SuiteTime> baselines;       // "eager", "compile", those of the task; kBest
  std::map<std::string, stats::Interval> speedups;  // over the baselines: above 1 is faster
  std::string best_baseline;                        // the fastest of all; kBest has its figures
  std::optional<double> roofline;                   // share of the GPU's best possible speed

  bool passed() const { return status == "passed"; }
};

/// A kernel for one direction of a task.
struct SuiteResult {
  std::string id, task, direction, kernel;
  std::string decision;        // a verdict's, or "pending"
  bool is_unfinished = false;  // judged, but some settings are not timed yet
  std::string code, reason;    // the first reason why it was not accepted
  std::string task_sha256, source_sha256;
  std::vector<SuiteSetting> settings;
  std::optional<double> build_seconds;

  bool accepted() const { return decision == "accepted"; }
};

/// A task and its direction, for which kernels are written.
using Problem = std::pair<std::string, std::string>;

struct Suite {
  std::string engine;  // "emu" or "gpu"
  std::string device, cupel, status, seed;
  std::vector<SuiteResult> items;
  std::vector<Problem> without_kernel;

  bool estimates() const { return engine == "emu"; }
};

/// Stands for the fastest baseline of each setting.
inline constexpr const char* kBest = "best";

/// Baselines with which the kernels of all tasks are compared, in display order.
inline constexpr const char* kBaselines[] = {"eager", "compile", kBest};

/// `what` names the document in errors. Errors: kInvalidArgument (not such a document),
/// kUnsupported (a newer schema).
Result<Suite> ReadSuite(const Json& document, std::string_view what);

/// The settings that define a kernel's speed: the task's multi settings. If it has none: its single
/// setting. If it has none: all settings that it lists. The single setting is usually among the
/// multi settings. Held-out settings do not count, because their sizes are unusual on purpose.
std::vector<const SuiteSetting*> SettingsOfSpeed(const SuiteResult& item);
/// The geometric mean over those settings that passed and were timed; nullopt if there are none.
std::optional<double> MeanSpeedup(const SuiteResult& item, const std::string& baseline);
/// The same for times or the emulator's estimates, in microseconds.
std::optional<double> MeanTime(const SuiteResult& item);
/// The same for the energy of a call, in millijoules.
std::optional<double> MeanEnergy(const SuiteResult& item);
/// Of the fastest baseline, at the same settings; nullopt if one of them has no energy.
std::optional<double> MeanEnergyOfBest(const SuiteResult& item);

}  // namespace cupel::report
