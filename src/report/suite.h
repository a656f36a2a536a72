// The results of a suite as data, read from their JSON form "cupel.suite/1"
// (docs/formats/suite.md). The document is the one source: scores, tables, pages and comparisons
// are all made of what is read here. SPDX-License-Identifier: Apache-2.0
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

/// Measured on a GPU; microseconds.
struct SuiteTime {
  stats::Interval us;           // of the median
  std::vector<double> samples;  // may be empty
};

struct SuiteSetting {
  std::string id, kind, description, status;
  std::string derived;                // sizes that cupel made of the task's first setting
  std::string reduced;                // sizes that stand in for the task's own on the emulator
  std::optional<double> over_limit;   // the largest error as a multiple of what is allowed
  std::optional<double> estimate_us;  // the emulator's, never a measurement
  std::optional<SuiteTime> time;
  std::map<std::string, SuiteTime> baselines;       // "eager", "compile"
  std::map<std::string, stats::Interval> speedups;  // over these: above 1 is faster
  std::optional<double> roofline;                   // share of the fastest that the GPU could be

  bool passed() const { return status == "passed"; }
};

/// A kernel for one direction of a task.
struct SuiteResult {
  std::string id, task, direction, kernel;
  std::string decision;        // a verdict's, or "pending"
  bool is_unfinished = false;  // judged, and not timed everywhere yet
  std::string code, reason;    // the first reason why not accepted
  std::string task_sha256, source_sha256;
  std::vector<SuiteSetting> settings;
  std::optional<double> build_seconds;

  bool accepted() const { return decision == "accepted"; }
};

/// What a kernel can be written for: a task's direction.
using Problem = std::pair<std::string, std::string>;

struct Suite {
  std::string engine;  // "emu" or "gpu"
  std::string device, cupel, status, seed;
  std::vector<SuiteResult> items;
  std::vector<Problem> without_kernel;

  bool estimates() const { return engine == "emu"; }
};

/// Baselines that kernels are held against, in the order in which they are shown.
inline constexpr const char* kBaselines[] = {"eager", "compile"};

/// Errors: kInvalidArgument (no such document), kUnsupported (a newer schema).
Result<Suite> ReadSuite(const Json& document, std::string_view what);

/// Those by which a kernel's speed is told: the task's multi settings, else its single one, else
/// all that it lists. The single one is mostly among the multi ones; held-out sizes are odd on
/// purpose.
std::vector<const SuiteSetting*> SettingsOfSpeed(const SuiteResult& item);
/// Over those that were passed and timed; nothing where there is none.
std::optional<double> MeanSpeedup(const SuiteResult& item, const std::string& baseline);
/// Likewise of times, or of the emulator's estimates; microseconds.
std::optional<double> MeanTime(const SuiteResult& item);

}  // namespace cupel::report
