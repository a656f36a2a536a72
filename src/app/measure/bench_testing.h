// A result of a benchmark for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/measure/bench.h"

namespace cupel::app {

inline assay::Timing TimingOf(const std::string& name, double us, bool is_baseline) {
  assay::Timing timing;
  timing.name = name;
  timing.is_baseline = is_baseline;
  timing.samples.cold.assign(40, us);
  timing.median = {us, 0.99 * us, 1.01 * us, 0.96};
  timing.warm_us = 0.9 * us;
  timing.host_us = us + 7;
  timing.roofline = 0.5;
  timing.verified = 9;
  timing.visible = 5;
  return timing;
}

inline assay::Comparison Compared(size_t a, size_t b, double ratio, stats::Difference difference) {
  return {a, b, {{ratio, ratio - 0.01, ratio + 0.01, 0.99}, difference}};
}

/// Two baselines and two kernels at two settings. fast.cu takes 1/2 of eager's time at the first
/// setting and 1/8 at the second.
inline BenchReport TestBench() {
  using stats::Difference;
  BenchReport report;
  report.task = "mnist_linear";
  report.direction = "forward";
  report.gpu = "NVIDIA H200";
  report.torch = "2.11.0";
  report.ceilings = {report.gpu, 4e12, 3.9e12, 60e12, 0, 0, 1.2};
  for (const char* name : {"fast.cu", "slow.cu"}) {
    judge::Verdict verdict;
    verdict.decision = judge::Decision::kAccepted;
    report.kernels.push_back({name, verdict});
  }
  for (const double ratio : {0.5, 0.125}) {
    assay::SettingTimes setting;
    setting.id = ratio == 0.5 ? "single-0" : "multi-1";
    setting.description = "batch_size=64";
    setting.timings = {TimingOf("eager", 8, true), TimingOf("compile", 1500, true),
                       TimingOf("fast.cu", 8 * ratio, false), TimingOf("slow.cu", 8.02, false)};
    setting.comparisons = {
        Compared(2, 0, ratio, Difference::kFaster), Compared(2, 1, 0.25, Difference::kFaster),
        Compared(3, 0, 1.0025, Difference::kNone), Compared(3, 1, 2, Difference::kSlower),
        Compared(3, 2, 2.005, Difference::kSlower)};
    setting.sets = 3;
    setting.overhead_us = 1.25;
    setting.after = {1980, 2619, 55, 431, {"power cap"}, 1};
    report.settings.push_back(setting);
  }
  return report;
}

}  // namespace cupel::app
