// PyTorch's own answer, timed together with kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "assay/bench.h"
#include "assay/sampler.h"
#include "oracle/baseline.h"
#include "records/reason.h"

namespace cupel::assay {

/// Why a named baseline does not count: its results are far from eager PyTorch's, so it computes
/// something else.
std::optional<records::Reason> ComputesOther(const oracle::BaselineInfo& info);

class BaselineSampler : public Sampler {
 public:
  BaselineSampler(oracle::Baselines& torch, oracle::BaselineInfo info)
      : torch_(torch), info_(std::move(info)) {}
  ~BaselineSampler() override;

  const oracle::BaselineInfo& info() const { return info_; }
  std::string Name() const override { return info_.baseline.Name(); }
  bool IsBaseline() const override { return true; }
  Result<std::vector<double>> Take(engine::TimingMode mode, int set, int count) override;
  /// As oracle::Baselines::MeasureEnergy.
  Result<records::EnergyUse> MeasureEnergy(double seconds);

  /// Adds how it was timed, and anything unusual about it.
  void Describe(records::Timing* timing) const;

 private:
  oracle::Baselines& torch_;
  oracle::BaselineInfo info_;
  std::string no_host_;  // why plain calls were not timed
};

}  // namespace cupel::assay
