// The scores of a suite: how many problems are solved, how fast, and fast_p as KernelBench defines
// it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "report/suite.h"

namespace cupel::report {

/// Speed-ups at which fast_p is told.
inline constexpr std::array kFastP = {0.0, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0};

/// The standing of one problem: its best accepted kernel, by either baseline.
struct ProblemScore {
  Problem problem;
  int kernels = 0;
  bool correct = false;                   // some kernel is accepted
  std::map<std::string, double> speedup;  // by baseline; of the kernel that is fastest by it
  std::map<std::string, std::string> kernel;
};

struct BaselineScore {
  /// Share of all problems that are solved by more than p times the baseline's speed.
  std::vector<double> fast;             // of kFastP
  std::optional<double> over_problems;  // geometric mean of their speed-ups
  std::optional<double> over_settings;  // of the settings of their best kernels
  size_t timed_problems = 0, timed_settings = 0;
};

struct SuiteScores {
  std::vector<ProblemScore> problems;  // those without a kernel too
  size_t correct_problems = 0;
  size_t kernels = 0, accepted_kernels = 0;  // judged ones
  size_t settings = 0, passed_settings = 0;  // that tasks list, of judged kernels
  std::vector<std::pair<std::string, BaselineScore>> baselines;  // empty where nothing was timed
  std::string why_no_times;
};

SuiteScores Score(const Suite& suite);
const BaselineScore* ScoreAgainst(const SuiteScores& scores, const std::string& baseline);
Json ToJson(const SuiteScores& scores);

/// The share of `problems` that are correct and more than `p` times as fast as `baseline`. Above
/// zero a problem without a time does not count as solved.
double FastP(const std::vector<ProblemScore>& problems, const std::string& baseline, double p);

}  // namespace cupel::report
