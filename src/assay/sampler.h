// What can be timed one replay at a time, kernels and baselines alike, so that they can be
// interleaved. SPDX-License-Identifier: Apache-2.0
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
  /// Microseconds of `count` replays on inputs number `set`, as engine::Taken has them. Nothing
  /// when it cannot be timed: Problem() says why from then on, but where plain calls (kHost) alone
  /// cannot.
  virtual Result<std::vector<double>> Take(engine::TimingMode mode, int set, int count) = 0;

  /// What comes from now on counts; what came before warmed up.
  virtual void BeginCounting() {}

  const std::optional<judge::Reason>& problem() const { return problem_; }

 protected:
  void Refuse(judge::Reason reason) { problem_ = std::move(reason); }

 private:
  std::optional<judge::Reason> problem_;
};

}  // namespace cupel::assay
