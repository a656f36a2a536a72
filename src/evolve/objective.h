// What a search minimises: the emulator's estimate, or the time, the energy or both as measured on
// a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  const assay::Candidate* candidate = nullptr;
  double value = 0;
  /// The number of this comparison with a champion within the run, from 1.
  int comparison = 1;
};

/// The maximum probability that any promotion of a run is false, and the level of comparison k:
/// alpha 6 / (pi k)^2. These levels sum to alpha over any number of comparisons.
inline constexpr double kFalsePromotions = 0.05;
double PromotionAlpha(int comparison, double alpha = kFalsePromotions);

/// How a candidate compares with the champion.
struct Standing {
  /// Smaller is better. Comparable with the values of all earlier candidates of the run.
  double value = 0;
  bool is_better = false;  // than the champion; true if there is none
  /// Set if the candidate is correct but its times do not count.
  std::optional<records::Reason> refused;
  std::vector<archive::Sample> samples;
};

/// Not thread-safe.
class Objective {
 public:
  virtual ~Objective() = default;
  /// Of the archive's `objective_kind`: "estimated_us", "median_us", "energy_mj", "mix".
  virtual std::string_view Kind() const = 0;
  /// `candidate` was accepted with `verdict` for `question`. nullopt if there is nothing to compare
  /// (no estimate).
  virtual Result<std::optional<Standing>> Measure(const assay::Candidate& candidate,
                                                  const records::Verdict& verdict,
                                                  const assay::Question& question,
                                                  const std::optional<Champion>& champion) = 0;
};

/// The geometric mean over settings of the estimated time of one call.
std::unique_ptr<Objective> MakeEstimate();

/// Times candidate and champion side by side (docs/measuring.md). A candidate is better if it is
/// faster in at least one setting and slower in none. The intervals widen with every comparison of
/// the run, so that PromotionAlpha holds for all settings together. Its value is the champion's
/// value times the geometric mean of the measured ratios, so that drift of the GPU during a long
/// run does not change values. Borrows `parts`.
std::unique_ptr<Objective> MakeMeasured(const assay::Parts& parts, assay::BenchOptions options,
                                        Aim aim);

/// The objective on the emulator: the geometric mean of the settings' estimates. nullopt if a
/// setting has no estimate.
std::optional<double> EstimateOf(const records::Verdict& verdict);

/// Compares `mine` with `other`, measured in the order other, mine, mine, other …. Returns the
/// ratio of their sums, and whether all pairs differ in the same direction by more than `margin`.
struct RatioOfRounds {
  double ratio = 1;
  bool all_less = false, all_more = false;
};
RatioOfRounds CompareRounds(const std::vector<double>& mine, const std::vector<double>& other,
                            double margin);

}  // namespace cupel::evolve
