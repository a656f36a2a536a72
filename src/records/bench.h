// The times of kernels and PyTorch's own answers. The JSON form is "cupel.bench/1"
// (docs/formats/bench.md); records/json.h writes and reads it. Times are microseconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "records/gpu_state.h"
#include "records/reason.h"
#include "records/verdict.h"
#include "stats/difference.h"
#include "stats/robust.h"
#include "task/task.h"

namespace cupel::records {

inline constexpr const char* kBenchSchema = "cupel.bench/1";

/// Microseconds; cold[i] of all timings of a setting come from the same round.
struct Samples {
  std::vector<double> cold, warm, host;
};

/// One kernel or baseline at one setting.
struct Timing {
  std::string name;
  bool is_baseline = false;
  std::optional<Reason> refused;      // why there is no time, or why it does not count
  std::vector<std::string> oddities;  // anything unusual about the time
  Samples samples;                    // a record contains only the cold ones
  stats::Interval median;             // of cold samples, 95 %
  double spread = 0;                  // their scaled median absolute deviation
  double warm_us = 0;
  std::optional<double> operators_us;  // the part of warm_us that PyTorch's operators take
  std::optional<double> host_us;       // nullopt if a plain call could not be timed
  std::optional<EnergyUse> energy;     // mean over the rounds
  std::vector<double> joules;          // per call, in each round; ABBA order; not in the record
  int verified = 0, visible = 0;       // timed replays checked; those whose secret was visible
  double bytes_a_second = 0, flops = 0;
  double roofline = 0;    // the fastest possible time on the GPU divided by this time
  std::string how;        // of baselines: "graph" or "stream"
  std::string libraries;  // of named baselines: what they use, with versions; may be empty
  std::string note;       // of baselines: how compiled outputs differ; not in the record

  bool is_timed() const { return !samples.cold.empty(); }
  /// True if the kernel or baseline is to blame that there is no time, false if cupel cannot time
  /// it.
  bool failed() const { return refused && !refused->code.starts_with("unsupported"); }
};

/// The time of `a` over that of `b`, which are names of timings.
struct TimeComparison {
  std::string a, b;
  stats::Compared compared;
};

/// Where a measurement spends its time.
struct StageSeconds {
  double cases = 0, prepare = 0, timer = 0, replays = 0, verify = 0;
};

struct SettingTimes {
  std::string id, description;
  task::SettingKind kind = task::SettingKind::kSingle;
  std::string note;  // why nothing was timed
  std::vector<Timing> timings;
  std::vector<TimeComparison> comparisons;  // of each kernel with all timings before it
  int sets = 0;
  double overhead_us = 0;                               // of the clock, already subtracted
  double read_bytes = 0, written_bytes = 0, flops = 0;  // that the task requires; 0 flops: unknown
  ArithmeticUnit unit = ArithmeticUnit::kFloat32;       // that the task may use for `flops`
  double floor_us = 0;  // shorter times are impossible or suspicious
  GpuState before, after;
  std::string torch_version;
  double seconds = 0;
  StageSeconds stages;
  std::string worker;  // in a suite: the worker that timed it

  /// Null if there is none with this name.
  const Timing* Find(const std::string& name) const;
};

struct BenchedKernel {
  std::string name;
  Verdict verdict;
};

/// A baseline's time from the last time it was measured on this machine.
struct RememberedBaseline {
  std::string setting, name;
  double us = 0;
  int64_t taken_at = 0;  // seconds since 1970
};

/// A geometric mean over settings.
struct MeanRatio {
  std::string a, b;
  double ratio = 0;
  int64_t settings = 0;
};

struct Bench {
  std::string cupel, task, gpu, torch;
  task::Direction direction = task::Direction::kForward;
  Ceilings ceilings;
  std::vector<BenchedKernel> kernels;
  std::vector<SettingTimes> settings;
  std::vector<RememberedBaseline> remembered_baselines;  // baselines that were not measured now

  std::vector<MeanRatio> GeometricMeans() const;
};

}  // namespace cupel::records
