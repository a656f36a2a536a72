// SPDX-License-Identifier: Apache-2.0
#include "assay/measure.h"

#include <algorithm>
#include <chrono>

#include "os/process.h"
#include "stats/robust.h"

namespace cupel::assay {
namespace {

using engine::TimingMode;
using Clock = std::chrono::steady_clock;

constexpr int kFirstRounds = 2;  // of every set: not counted
constexpr int kLookEvery = 10;   // rounds
constexpr double kConfidence = 0.95;

class Measurement {
 public:
  Measurement(std::span<Sampler* const> samplers, const std::function<Result<double>()>& nothing,
              int sets, const MeasureOptions& options)
      : samplers_(samplers),
        nothing_(nothing),
        sets_(sets),
        options_(options),
        samples_(samplers.size()) {}

  Result<Measured> Run(const std::function<void(int)>& progress) {
    const auto end = Clock::now() + std::chrono::duration<double>(options_.seconds);
    const int first = kFirstRounds * sets_;
    for (int round = 0; round < options_.most + first; ++round) {
      if (os::CancelRequested()) return Fail(ErrorCode::kCancelled, "interrupted");
      TRY_ASSIGN(const bool go_on, TakeRound(round, round >= first));
      if (!go_on) return Measured();
      const int counted = round + 1 - first;
      if (counted <= 0 || counted % kLookEvery != 0) continue;
      progress(counted);
      if (counted >= options_.least && AreNarrow()) break;
      if (Clock::now() > end) break;
    }
    TRY(TakeOthers());
    return Subtracted();
  }

 private:
  /// False when a sampler cannot go on.
  Result<bool> TakeRound(int round, bool counts) {
    const int set = round / 2 % sets_;
    std::vector<double> times(samplers_.size());
    for (size_t i = 0; i < samplers_.size(); ++i) {
      const size_t which = round % 2 == 0 ? i : samplers_.size() - 1 - i;
      TRY_ASSIGN(const std::vector<double> taken,
                 samplers_[which]->Take(TimingMode::kCold, set, 1));
      if (taken.empty()) return false;
      times[which] = taken.front();
    }
    TRY_ASSIGN(const double nothing, nothing_());
    if (!counts) return true;
    for (size_t i = 0; i < times.size(); ++i) samples_[i].cold.push_back(times[i]);
    overheads_.push_back(nothing);
    return true;
  }

  bool AreNarrow() const {
    return std::all_of(samples_.begin(), samples_.end(), [&](const Samples& samples) {
      const stats::Interval median = stats::MedianInterval(samples.cold, kConfidence);
      const double half = (median.high - median.low) / 2;
      return half <= std::max(options_.narrow * median.estimate, kClockResolutionUs / 2);
    });
  }

  Status TakeOthers() {
    for (size_t i = 0; i < samplers_.size(); ++i) {
      TRY_ASSIGN(samples_[i].warm, samplers_[i]->Take(TimingMode::kWarm, 0, options_.others));
      TRY_ASSIGN(samples_[i].host, samplers_[i]->Take(TimingMode::kHost, 0, options_.others));
    }
    return {};
  }

  Measured Subtracted() {
    constexpr double kLeastUs = 0.001;
    Measured measured;
    measured.overhead_us = stats::Median(overheads_);
    measured.samples = std::move(samples_);
    for (Samples& samples : measured.samples) {
      for (std::vector<double>* times : {&samples.cold, &samples.warm}) {
        for (double& us : *times) us = std::max(us - measured.overhead_us, kLeastUs);
      }
    }
    return measured;
  }

  std::span<Sampler* const> samplers_;
  const std::function<Result<double>()>& nothing_;
  int sets_;
  MeasureOptions options_;
  std::vector<Samples> samples_;
  std::vector<double> overheads_;
};

}  // namespace

Result<Measured> Measure(std::span<Sampler* const> samplers,
                         const std::function<Result<double>()>& nothing, int sets,
                         const MeasureOptions& options,
                         const std::function<void(int rounds)>& progress) {
  return Measurement(samplers, nothing, sets, options).Run(progress);
}

}  // namespace cupel::assay
