// SPDX-License-Identifier: Apache-2.0
#include "evolve/objective.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace cupel::evolve {
namespace {

constexpr const char* kCandidate = "candidate";
constexpr const char* kChampion = "best so far";
constexpr int kEnergyRounds = 3;
constexpr double kEnergyMargin = 0.01;  // the accuracy at assay::kEnergySeconds

const records::Timing* Find(const records::SettingTimes& times, std::string_view name) {
  for (const records::Timing& timing : times.timings) {
    if (timing.name == name) return &timing;
  }
  return nullptr;
}

class Estimate final : public Objective {
 public:
  std::string_view Kind() const override { return "estimated_us"; }

  Result<std::optional<Standing>> Measure(const assay::Candidate&, const records::Verdict& verdict,
                                          const assay::Question&,
                                          const std::optional<Champion>& champion) override {
    const auto value = EstimateOf(verdict);
    if (!value) return std::optional<Standing>();
    Standing standing;
    standing.value = *value;
    standing.is_better = !champion || *value < champion->value;
    return std::optional<Standing>(std::move(standing));
  }
};

/// Sums over all settings.
struct Tally {
  double log_value = 0, log_ratio = 0;
  int settings = 0, better = 0, worse = 0;
};

class Measured final : public Objective {
 public:
  Measured(const assay::Parts& parts, assay::BenchOptions options, Aim aim)
      : parts_(parts), options_(std::move(options)), aim_(aim) {
    if (aim_ == Aim::kTime) return;
    options_.energy_seconds = assay::kEnergySeconds;
    options_.energy_rounds = kEnergyRounds;
  }

  std::string_view Kind() const override {
    return aim_ == Aim::kTime ? "median_us" : aim_ == Aim::kEnergy ? "energy_mj" : "mix";
  }

  Result<std::optional<Standing>> Measure(const assay::Candidate& candidate,
                                          const records::Verdict&, const assay::Question& question,
                                          const std::optional<Champion>& champion) override {
    if (std::holds_alternative<build::BuildFailure>(candidate.built)) {
      return std::optional<Standing>();
    }
    std::vector<assay::KernelToTime> kernels;
    if (champion) kernels.push_back({kChampion, champion->candidate});
    kernels.push_back({kCandidate, &candidate});
    Standing standing;
    Tally tally;
    const auto settings = assay::Chosen(question);
    assay::BenchOptions options = options_;
    if (champion) {
      // The intervals are two-sided, but only one side can promote. Any setting can promote.
      const double share = PromotionAlpha(champion->comparison) /
                           static_cast<double>(std::max<size_t>(1, settings.size()));
      options.confidence = std::max(options.confidence, 1 - 2 * share);
    }
    for (const task::Setting* setting : settings) {
      TRY_ASSIGN(const records::SettingTimes times,
                 assay::TimeSetting(parts_, question, *setting, kernels, options));
      const records::Timing* mine = Find(times, kCandidate);
      if (mine == nullptr) continue;  // the reference of the task fails at this setting
      if (mine->refused) {
        standing.refused = mine->refused;
        return std::optional<Standing>(std::move(standing));
      }
      standing.samples.push_back({setting->id, "gpu", "candidate", mine->samples.cold});
      TRY(Add(times, *mine, tally));
    }
    if (tally.settings == 0) return std::optional<Standing>();
    standing.is_better = !champion || (tally.better > 0 && tally.worse == 0 && tally.log_ratio < 0);
    standing.value = champion ? champion->value * std::exp(tally.log_ratio / tally.settings)
                              : std::exp(tally.log_value / tally.settings);
    if (champion && !standing.is_better) standing.value = std::max(standing.value, champion->value);
    return std::optional<Standing>(std::move(standing));
  }

 private:
  Status Add(const records::SettingTimes& times, const records::Timing& mine, Tally& tally) const {
    TRY_ASSIGN(const double value, ValueOf(mine));
    const records::Timing* other = Find(times, kChampion);
    ++tally.settings;
    tally.log_value += std::log(value);
    if (other == nullptr || other->refused) return {};
    for (const Aim part : {Aim::kTime, Aim::kEnergy}) {
      if (aim_ != part && aim_ != Aim::kMix) continue;
      const double share = aim_ == Aim::kMix ? 0.5 : 1;
      if (part == Aim::kTime) {
        AddTime(times, mine, *other, share, tally);
      } else {
        const auto compared = CompareRounds(mine.joules, other->joules, kEnergyMargin);
        tally.log_ratio += share * std::log(compared.ratio);
        tally.better += compared.all_less ? 1 : 0;
        tally.worse += compared.all_more ? 1 : 0;
      }
    }
    return {};
  }

  static void AddTime(const records::SettingTimes& times, const records::Timing& mine,
                      const records::Timing& other, double share, Tally& tally) {
    for (const records::TimeComparison& comparison : times.comparisons) {
      if (comparison.a != mine.name || comparison.b != other.name) continue;
      tally.log_ratio += share * std::log(comparison.compared.ratio.estimate);
      tally.better += comparison.compared.difference == stats::Difference::kFaster ? 1 : 0;
      tally.worse += comparison.compared.difference == stats::Difference::kSlower ? 1 : 0;
    }
  }

  Result<double> ValueOf(const records::Timing& timing) const {
    if (aim_ == Aim::kTime) return timing.median.estimate;
    if (!timing.energy) {
      std::string why = "unsupported: this GPU does not report its energy consumption";
      for (const std::string& oddity : timing.oddities) {
        if (oddity.starts_with(assay::kNoEnergy)) why = oddity;
      }
      return Fail(ErrorCode::kUnsupported, why, "use --objective time");
    }
    const double mj = timing.energy->joules * 1e3;
    return aim_ == Aim::kEnergy ? mj : std::sqrt(mj * timing.median.estimate);
  }

  const assay::Parts& parts_;
  assay::BenchOptions options_;
  Aim aim_;
};

}  // namespace

std::string_view Name(Aim aim) {
  return aim == Aim::kTime ? "time" : aim == Aim::kEnergy ? "energy" : "mix";
}

std::optional<Aim> AimNamed(std::string_view name) {
  for (const Aim aim : {Aim::kTime, Aim::kEnergy, Aim::kMix}) {
    if (Name(aim) == name) return aim;
  }
  return std::nullopt;
}

std::unique_ptr<Objective> MakeEstimate() { return std::make_unique<Estimate>(); }

std::unique_ptr<Objective> MakeMeasured(const assay::Parts& parts, assay::BenchOptions options,
                                        Aim aim) {
  return std::make_unique<Measured>(parts, std::move(options), aim);
}

double PromotionAlpha(int comparison, double alpha) {
  const double k = std::max(1, comparison);
  return alpha * 6 / (std::numbers::pi * std::numbers::pi * k * k);
}

std::optional<double> EstimateOf(const records::Verdict& verdict) {
  double log_sum = 0;
  int count = 0;
  for (const records::SettingReport& setting : verdict.settings) {
    if (setting.status != records::SettingStatus::kPassed) continue;
    if (!(setting.counters.estimated_us > 0)) return std::nullopt;
    log_sum += std::log(setting.counters.estimated_us);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return std::exp(log_sum / count);
}

RatioOfRounds CompareRounds(const std::vector<double>& mine, const std::vector<double>& other,
                            double margin) {
  RatioOfRounds compared;
  const size_t rounds = std::min(mine.size(), other.size());
  if (rounds == 0) return compared;
  double sum = 0, other_sum = 0;
  compared.all_less = compared.all_more = true;
  for (size_t i = 0; i < rounds; ++i) {
    sum += mine[i];
    other_sum += other[i];
    compared.all_less = compared.all_less && mine[i] < other[i] * (1 - margin);
    compared.all_more = compared.all_more && mine[i] * (1 - margin) > other[i];
  }
  const bool sound = sum > 0 && other_sum > 0;
  if (!sound) return RatioOfRounds{};
  compared.ratio = sum / other_sum;
  return compared;
}

}  // namespace cupel::evolve
