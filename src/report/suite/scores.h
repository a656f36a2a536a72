// The scores of a suite: solved problems, speed-ups, and fast_p as KernelBench defines it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "report/suite/suite.h"

namespace cupel::report {

/// The values of p for which fast_p is reported.
inline constexpr std::array kFastP = {0.0, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0};

/// The score of one problem: its best accepted kernel for each baseline.
struct ProblemScore {
  Problem problem;
  int kernels = 0;
  bool correct = false;                   // at least one kernel is accepted
  std::map<std::string, double> speedup;  // by baseline; of the kernel that is fastest against it
  std::map<std::string, std::string> kernel;
};

struct BaselineScore {
  /// Share of all problems that are solved with more than p times the baseline's speed.
  std::vector<double> fast;             // for each of kFastP
  std::optional<double> over_problems;  // geometric mean of the problems' speed-ups
  std::optional<double> over_settings;  // geometric mean over the settings of their best kernels
  size_t timed_problems = 0, timed_settings = 0;
};

struct SuiteScores {
  std::vector<ProblemScore> problems;  // including those without a kernel
  size_t correct_problems = 0;
  size_t kernels = 0, accepted_kernels = 0;  // judged ones
  size_t settings = 0, passed_settings = 0;  // listed by the tasks, of judged kernels
  std::vector<std::pair<std::string, BaselineScore>> baselines;  // empty if nothing was timed
  std::string why_no_times;
};

SuiteScores Score(const Suite& suite);
const BaselineScore* ScoreAgainst(const SuiteScores& scores, const std::string& baseline);
Json ToJson(const SuiteScores& scores);

/// The share of `problems` that are correct and more than `p` times as fast as `baseline`. For p >
/// 0 a problem without a time does not count as solved.
double FastP(const std::vector<ProblemScore>& problems, const std::string& baseline, double p);

}  // namespace cupel::report
