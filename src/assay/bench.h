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
#include "engine/ceilings.h"
#include "oracle/baseline.h"
#include "stats/difference.h"

namespace cupel::assay {

struct BenchOptions {
  MeasureOptions measure;
  int sets = 3;               // sets of inputs, between which replays rotate
  double confidence = 0.99;   // of comparisons
  double energy_seconds = 0;  // for each kernel in each round; 0: not measured
  int energy_rounds = 1;
  std::vector<oracle::BaselineKind> baselines;
  oracle::Baselines* torch = nullptr;  // needed for baselines; borrowed
  engine::Ceilings ceilings;           // of the GPU in use
};

/// One kernel or baseline at one setting.
struct Timing {
  std::string name;
  bool is_baseline = false;
  std::optional<judge::Reason> refused;  // why there is no time, or why it does not count
  std::vector<std::string> oddities;     // anything unusual about the time
  Samples samples;
  stats::Interval median;  // of cold samples, 95 %
  double spread = 0;       // their scaled median absolute deviation
  double warm_us = 0;
  std::optional<double> host_us;            // nullopt if a plain call could not be timed
  std::optional<engine::EnergyUse> energy;  // mean over the rounds
  std::vector<double> joules;               // per call, in each round; ABBA order
  int verified = 0, visible = 0;            // timed replays checked; those whose secret was visible
  double bytes_a_second = 0, flops = 0;
  double roofline = 0;    // the fastest possible time on the GPU divided by this time
  std::string how, note;  // baselines: "graph" or "stream", and how compiled outputs differ
};

struct Comparison {
  size_t a = 0, b = 0;  // indices in SettingTimes::timings
  stats::Compared compared;
};

/// Where a measurement spends its time.
struct StageSeconds {
  double cases = 0, prepare = 0, timer = 0, replays = 0, verify = 0;
};

struct SettingTimes {
  std::string id, kind, description;
  std::string note;  // why nothing was timed
  std::vector<Timing> timings;
  std::vector<Comparison> comparisons;  // of each kernel with all timings before it
  int sets = 0;
  double overhead_us = 0;                               // of the clock, already subtracted
  double read_bytes = 0, written_bytes = 0, flops = 0;  // that the task requires; 0 flops: unknown
  double floor_us = 0;  // shorter times are impossible or suspicious
  engine::GpuState before, after;
  std::string torch_version;
  double seconds = 0;
  StageSeconds stages;
};

struct KernelToTime {
  std::string name;
  const build::Image* image = nullptr;  // borrowed
};

/// An Error means that cupel could not work; faults of a kernel are in its Timing.
Result<SettingTimes> TimeSetting(const Parts& parts, const Question& question,
                                 const task::Setting& setting,
                                 std::span<const KernelToTime> kernels,
                                 const BenchOptions& options);

/// "cupel.bench/1": docs/formats/bench.md.
Json ToJson(const SettingTimes& times);

}  // namespace cupel::assay
