// SPDX-License-Identifier: Apache-2.0
#include "report/suite/scores.h"

#include <algorithm>

namespace cupel::report {
namespace {

/// The scores of problems, in the order of the list.
class ProblemScores {
 public:
  ProblemScore& Of(const Problem& problem) {
    const auto [at, fresh] = at_.try_emplace(problem, scores_.size());
    if (fresh) scores_.push_back({problem, 0, false, {}, {}});
    return scores_[at->second];
  }
  std::vector<ProblemScore> Take() { return std::move(scores_); }

 private:
  std::map<Problem, size_t> at_;
  std::vector<ProblemScore> scores_;
};

void AddItem(const SuiteResult& item, ProblemScore& score) {
  ++score.kernels;
  if (!item.accepted()) return;
  score.correct = true;
  for (const char* baseline : kBaselines) {
    const auto speedup = MeanSpeedup(item, baseline);
    if (!speedup) continue;
    const auto best = score.speedup.find(baseline);
    if (best != score.speedup.end() && best->second >= *speedup) continue;
    score.speedup[baseline] = *speedup;
    score.kernel[baseline] = item.id;
  }
}

BaselineScore MeasuredAgainst(const Suite& suite, const std::vector<ProblemScore>& problems,
                              const std::string& baseline) {
  BaselineScore score;
  for (const double p : kFastP) score.fast.push_back(FastP(problems, baseline, p));
  std::vector<double> of_problems, of_settings;
  for (const ProblemScore& problem : problems) {
    const auto speedup = problem.speedup.find(baseline);
    if (speedup == problem.speedup.end()) continue;
    of_problems.push_back(speedup->second);
    for (const SuiteResult& item : suite.items) {
      if (item.id != problem.kernel.at(baseline)) continue;
      for (const SuiteSetting* setting : SettingsOfSpeed(item)) {
        const auto ratio = setting->speedups.find(baseline);
        if (setting->passed() && ratio != setting->speedups.end()) {
          of_settings.push_back(ratio->second.estimate);
        }
      }
    }
  }
  score.timed_problems = of_problems.size();
  score.timed_settings = of_settings.size();
  if (!of_problems.empty()) score.over_problems = stats::GeometricMean(of_problems);
  if (!of_settings.empty()) score.over_settings = stats::GeometricMean(of_settings);
  return score;
}

Json Optional(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

double FastP(const std::vector<ProblemScore>& problems, const std::string& baseline, double p) {
  if (problems.empty()) return 0;
  const auto solved = std::count_if(problems.begin(), problems.end(), [&](const auto& problem) {
    const auto speedup = problem.speedup.find(baseline);
    return problem.correct && (p <= 0 || (speedup != problem.speedup.end() && speedup->second > p));
  });
  return static_cast<double>(solved) / static_cast<double>(problems.size());
}

const BaselineScore* ScoreAgainst(const SuiteScores& scores, const std::string& baseline) {
  for (const auto& [name, score] : scores.baselines) {
    if (name == baseline) return &score;
  }
  return nullptr;
}

SuiteScores Score(const Suite& suite) {
  SuiteScores scores;
  ProblemScores problem_scores;
  for (const SuiteResult& item : suite.items) {
    ProblemScore& problem = problem_scores.Of({item.task, item.direction});
    if (item.decision == "pending") continue;
    AddItem(item, problem);
    ++scores.kernels;
    scores.accepted_kernels += item.accepted() ? 1 : 0;
    for (const SuiteSetting& setting : item.settings) {
      // No kernel can pass if the task itself fails or cannot be judged.
      if (!setting.derived.empty() || setting.status == "no_reference" ||
          setting.status == "cannot_judge") {
        continue;
      }
      ++scores.settings;
      scores.passed_settings += setting.passed() ? 1 : 0;
    }
  }
  for (const Problem& problem : suite.without_kernel) problem_scores.Of(problem);
  scores.problems = problem_scores.Take();
  scores.correct_problems = static_cast<size_t>(
      std::count_if(scores.problems.begin(), scores.problems.end(),
                    [](const ProblemScore& problem) { return problem.correct; }));
  for (const char* baseline : kBaselines) {
    const bool timed = std::any_of(
        scores.problems.begin(), scores.problems.end(),
        [&](const ProblemScore& problem) { return problem.speedup.count(baseline) > 0; });
    if (timed) {
      scores.baselines.emplace_back(baseline, MeasuredAgainst(suite, scores.problems, baseline));
    }
  }
  if (scores.baselines.empty()) {
    scores.why_no_times = suite.estimates()
                              ? "times are estimates, so speed-ups over PyTorch are not reported"
                              : "no kernel was timed together with PyTorch";
  }
  return scores;
}

Json ToJson(const SuiteScores& scores) {
  Json problems = Json::array();
  for (const ProblemScore& score : scores.problems) {
    Json problem{{"task", score.problem.first},
                 {"direction", score.problem.second},
                 {"kernels", score.kernels},
                 {"correct", score.correct}};
    for (const auto& [baseline, speedup] : score.speedup) {
      problem["best"][baseline] = {{"speedup", speedup}, {"item", score.kernel.at(baseline)}};
    }
    problems.push_back(std::move(problem));
  }
  Json baselines = Json::object();
  for (const auto& [name, score] : scores.baselines) {
    Json fast = Json::array();
    for (size_t i = 0; i < kFastP.size(); ++i) {
      fast.push_back({{"p", kFastP[i]}, {"share", score.fast[i]}});
    }
    baselines[name] = {{"fast_p", std::move(fast)},
                       {"geometric_mean_over_problems", Optional(score.over_problems)},
                       {"timed_problems", score.timed_problems},
                       {"geometric_mean_over_settings", Optional(score.over_settings)},
                       {"timed_settings", score.timed_settings}};
  }
  return {{"problems", scores.problems.size()}, {"correct_problems", scores.correct_problems},
          {"kernels", scores.kernels},          {"accepted_kernels", scores.accepted_kernels},
          {"settings", scores.settings},        {"passed_settings", scores.passed_settings},
          {"against", std::move(baselines)},    {"why_no_times", scores.why_no_times},
          {"by_problem", std::move(problems)}};
}

}  // namespace cupel::report
