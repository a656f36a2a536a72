// A result of a benchmark for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/measure/bench.h"

namespace cupel::app {

inline records::Timing TimingOf(const std::string& name, double us, bool is_baseline) {
  records::Timing timing;
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

inline records::TimeComparison Compared(const std::string& a, const std::string& b, double ratio,
                                        stats::Difference difference) {
  return {a, b, {{ratio, ratio - 0.01, ratio + 0.01, 0.99}, difference}};
}

/// Two baselines and two kernels at two settings. fast.cu takes 1/2 of eager's time at the first
/// setting and 1/8 at the second.
inline records::Bench TestBench() {
  using stats::Difference;
  records::Bench report;
  report.task = "mnist_linear";
  report.gpu = "NVIDIA H200";
  report.torch = "2.11.0";
  report.ceilings = {report.gpu, 4e12, 3.9e12, 60e12, 0, 0, 1.2};
  for (const char* name : {"fast.cu", "slow.cu"}) {
    records::Verdict verdict;
    verdict.decision = records::Decision::kAccepted;
    report.kernels.push_back({name, verdict});
  }
  for (const double ratio : {0.5, 0.125}) {
    records::SettingTimes setting;
    setting.id = ratio == 0.5 ? "single-0" : "multi-1";
    setting.description = "batch_size=64";
    setting.timings = {TimingOf("eager", 8, true), TimingOf("compile", 1500, true),
                       TimingOf("fast.cu", 8 * ratio, false), TimingOf("slow.cu", 8.02, false)};
    setting.comparisons = {Compared("fast.cu", "eager", ratio, Difference::kFaster),
                           Compared("fast.cu", "compile", 0.25, Difference::kFaster),
                           Compared("slow.cu", "eager", 1.0025, Difference::kNone),
                           Compared("slow.cu", "compile", 2, Difference::kSlower),
                           Compared("slow.cu", "fast.cu", 2.005, Difference::kSlower)};
    setting.sets = 3;
    setting.overhead_us = 1.25;
    setting.after = {1980, 2619, 55, 431, {"power cap"}, 1};
    report.settings.push_back(setting);
  }
  return report;
}

}  // namespace cupel::app
