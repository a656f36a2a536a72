// Times accepted kernels together with PyTorch's own answers, one setting at a time
// (docs/measuring.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assay/assay.h"
#include "assay/measure.h"
#include "oracle/baseline.h"
#include "records/bench.h"
#include "records/gpu_state.h"

namespace cupel::assay {

/// For each kernel, when energy is asked for. The energy counter advances some tens of times per
/// second, so the energy of half a second is accurate to about 1 %.
inline constexpr double kEnergySeconds = 0.5;
/// How the oddity of a timing begins whose energy was to be measured, but could not be.
inline constexpr const char* kNoEnergy = "its energy was not measured: ";

struct BenchOptions {
  MeasureOptions measure;
  int sets = 3;               // sets of inputs, between which replays rotate
  double confidence = 0.99;   // of comparisons
  double energy_seconds = 0;  // for each kernel in each round; 0: not measured
  int energy_rounds = 1;
  std::vector<oracle::Baseline> baselines;
  oracle::Baselines* torch = nullptr;  // needed for baselines; borrowed
  records::Ceilings ceilings;          // of the GPU in use
};

struct KernelToTime {
  std::string name;
  const Candidate* candidate = nullptr;  // was accepted; borrowed
};

/// An Error means that cupel could not work; faults of a kernel are in its Timing.
Result<records::SettingTimes> TimeSetting(const Parts& parts, const Question& question,
                                          const task::Setting& setting,
                                          std::span<const KernelToTime> kernels,
                                          const BenchOptions& options);

}  // namespace cupel::assay
