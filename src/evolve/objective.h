// What a search minimises: the emulator's estimate, or what a GPU is measured to take, in time, in
// energy or in both. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "archive/archive.h"
#include "assay/bench.h"

namespace cupel::evolve {

enum class Aim { kTime, kEnergy, kMix };
std::string_view Name(Aim aim);
/// "time", "energy", "mix".
std::optional<Aim> AimNamed(std::string_view name);

/// The candidate that a new one must beat.
struct Champion {
  const build::Image* image = nullptr;
  double value = 0;
  /// The how-manieth comparison of the run with a best so far this is, from 1.
  int comparison = 1;
};

/// The chance at most that any of a run's promotions is false, and its share for one comparison
/// when the shares of all comparisons, however many, are to sum to that: alpha 6 / (pi k)^2.
inline constexpr double kFalsePromotions = 0.05;
double PromotionAlpha(int comparison, double alpha = kFalsePromotions);

/// Where a candidate stands.
struct Standing {
  /// Smaller is better, and comparable with that of every candidate before it.
  double value = 0;
  bool is_better = false;  // than the champion; true where there is none
  /// Right, but its times do not count.
  std::optional<judge::Reason> refused;
  std::vector<archive::Sample> samples;
};

/// Not thread-safe.
class Objective {
 public:
  virtual ~Objective() = default;
  /// Of the archive's `objective_kind`: "estimated_us", "median_us", "energy_mj", "mix".
  virtual std::string_view Kind() const = 0;
  /// `candidate` was accepted with `verdict` as an answer to `question`. Nothing where there is
  /// nothing to compare (no estimate).
  virtual Result<std::optional<Standing>> Measure(const assay::Candidate& candidate,
                                                  const judge::Verdict& verdict,
                                                  const assay::Question& question,
                                                  const std::optional<Champion>& champion) = 0;
};

/// The geometric mean over settings of the estimated time of one call.
std::unique_ptr<Objective> MakeEstimate();

/// Candidate and champion are timed side by side (docs/measuring.md); a candidate is better when
/// it is faster at one setting at least and slower at none, by intervals that widen with every
/// comparison of the run so that PromotionAlpha holds for all settings together. Its value is the
/// champion's times the geometric mean of the measured ratios, so that a GPU which changes its mood
/// over a long run moves no values. Borrows `parts`.
std::unique_ptr<Objective> MakeMeasured(const assay::Parts& parts, assay::BenchOptions options,
                                        Aim aim,
                                        std::function<void(const std::string& stage)> progress);

/// What selection minimises on the emulator. nullopt when a setting has no estimate.
std::optional<double> EstimateOf(const judge::Verdict& verdict);

/// How much less `mine` is than `other`, by measurements in the order other, mine, mine, other …:
/// the ratio of their sums, and whether every pair says the same by more than `margin`.
struct RatioOfRounds {
  double ratio = 1;
  bool all_less = false, all_more = false;
};
RatioOfRounds CompareRounds(const std::vector<double>& mine, const std::vector<double>& other,
                            double margin);

}  // namespace cupel::evolve
