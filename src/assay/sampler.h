// Something that can be timed one replay at a time: kernels and baselines share this interface, so
// that their replays can be interleaved.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/timing.h"
#include "judge/verdict.h"

namespace cupel::assay {

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::string Name() const = 0;
  virtual bool IsBaseline() const = 0;
  /// Microseconds of `count` replays on input set `set`, as in engine::Taken. Empty if it cannot be
  /// timed; then problem() says why, except if only plain calls (kHost) fail.
  virtual Result<std::vector<double>> Take(engine::TimingMode mode, int set, int count) = 0;

  /// Called after the warm-up: replays from now on count.
  virtual void BeginCounting() {}

  const std::optional<records::Reason>& problem() const { return problem_; }

 protected:
  void Refuse(records::Reason reason) { problem_ = std::move(reason); }

 private:
  std::optional<records::Reason> problem_;
};

}  // namespace cupel::assay
