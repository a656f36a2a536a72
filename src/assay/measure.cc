// SPDX-License-Identifier: Apache-2.0
#include "assay/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "stats/paired.h"
#include "stats/robust.h"

namespace cupel::assay {
namespace {

using engine::TimingMode;
using Clock = std::chrono::steady_clock;

/// Warm-up that is not counted: every set, for as long as an idle GPU takes to raise its clocks.
constexpr int kFirstRounds = 2;
constexpr std::chrono::milliseconds kFirstTime{50};
constexpr double kLooksGrow = 1.4;  // factor between the rounds of consecutive interval checks
constexpr double kConfidence = 0.95;
constexpr double kOthersUs = 2e6;  // limit for the warm or the host samples of one sampler

class Measurement {
 public:
  Measurement(std::span<Sampler* const> samplers, const std::function<Result<double>()>& overhead,
              int sets, const MeasureOptions& options)
      : samplers_(samplers),
        overhead_(overhead),
        sets_(sets),
        options_(options),
        samples_(samplers.size()) {}

  Result<Measured> Run(const std::function<void(int)>& progress, const std::stop_token& stop) {
    const auto start = Clock::now();
    const auto end = start + std::chrono::duration<double>(options_.seconds);
    int counted = 0, next_look = options_.least;
    for (int round = 0; counted < options_.most; ++round) {
      if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
      // Rounds come in pairs, forwards and backwards. Counting starts with a forward round.
      if (counted == 0 && round % 2 == 0) {
        counts_ = round >= kFirstRounds * sets_ && Clock::now() - start > kFirstTime;
        for (Sampler* sampler : samplers_) {
          if (counts_) sampler->BeginCounting();
        }
      }
      TRY_ASSIGN(const bool taken, TakeRound(round));
      if (!taken) return Measured();
      counted += counts_ ? 1 : 0;
      if (counted > 0 && Clock::now() > end) break;
      if (counted < next_look) continue;
      next_look = static_cast<int>(std::ceil(kLooksGrow * counted));
      progress(counted);
      if (AreNarrow()) break;
    }
    TRY_ASSIGN(const bool others, TakeOthers());
    return others ? Subtracted() : Measured();
  }

 private:
  /// False if a sampler failed.
  Result<bool> TakeRound(int round) {
    const int set = round / 2 % sets_;
    std::vector<double> times(samplers_.size());
    for (size_t i = 0; i < samplers_.size(); ++i) {
      const size_t which = round % 2 == 0 ? i : samplers_.size() - 1 - i;
      TRY_ASSIGN(const std::vector<double> taken,
                 samplers_[which]->Take(TimingMode::kCold, set, 1));
      if (taken.empty()) return false;
      times[which] = taken.front();
    }
    TRY_ASSIGN(const double overhead, overhead_());
    if (!counts_) return true;
    for (size_t i = 0; i < times.size(); ++i) samples_[i].cold.push_back(times[i]);
    overheads_.push_back(overhead);
    return true;
  }

  /// True if the intervals of all medians, and of their ratios to the first, are narrow enough.
  bool AreNarrow() const {
    return std::all_of(samples_.begin(), samples_.end(), [&](const records::Samples& samples) {
      const stats::Interval median = stats::MedianInterval(samples.cold, kConfidence);
      if (median.confidence < kConfidence) return false;
      if (median.high - median.low > 2 * options_.narrow * median.estimate) return false;
      if (&samples == &samples_.front()) return true;
      const stats::Interval ratio = stats::PairedRatio(samples.cold, samples_.front().cold);
      return ratio.high - ratio.low <= 2 * options_.narrow * ratio.estimate;
    });
  }

  /// False if a sampler failed.
  Result<bool> TakeOthers() {
    for (size_t i = 0; i < samplers_.size(); ++i) {
      // Long calls need fewer samples, and a request has a deadline.
      const double us = stats::Median(samples_[i].cold);
      const int count = std::clamp(static_cast<int>(kOthersUs / us), 1, options_.others);
      TRY_ASSIGN(samples_[i].warm, samplers_[i]->Take(TimingMode::kWarm, 0, count));
      if (samples_[i].warm.empty()) return false;
      TRY_ASSIGN(samples_[i].host, samplers_[i]->Take(TimingMode::kHost, 0, count));
      if (samplers_[i]->problem()) return false;
    }
    return true;
  }

  Measured Subtracted() {
    constexpr double kLeastUs = 0.001;
    Measured measured;
    measured.overhead_us = stats::Median(overheads_);
    measured.samples = std::move(samples_);
    for (records::Samples& samples : measured.samples) {
      for (std::vector<double>* times : {&samples.cold, &samples.warm}) {
        for (double& us : *times) us = std::max(us - measured.overhead_us, kLeastUs);
      }
    }
    return measured;
  }

  std::span<Sampler* const> samplers_;
  const std::function<Result<double>()>& overhead_;
  int sets_;
  MeasureOptions options_;
  std::vector<records::Samples> samples_;
  std::vector<double> overheads_;
  bool counts_ = false;
};

}  // namespace

Result<Measured> Measure(std::span<Sampler* const> samplers,
                         const std::function<Result<double>()>& overhead, int sets,
                         const MeasureOptions& options,
                         const std::function<void(int rounds)>& progress,
                         const std::stop_token& stop) {
  return Measurement(samplers, overhead, sets, options).Run(progress, stop);
}

}  // namespace cupel::assay
