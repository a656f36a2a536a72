// Builds suites for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "report/suite/suite.h"

namespace cupel::report {

inline SuiteSetting TestSetting(const std::string& id, double us, double eager_us) {
  SuiteSetting setting;
  setting.id = id;
  setting.status = "passed";
  setting.description = "n=1";
  setting.time = SuiteTime{{us, us * 0.99, us * 1.01, 0.95}, {}};
  setting.baselines["eager"] = SuiteTime{{eager_us, eager_us, eager_us, 0.95}, {}};
  const double ratio = eager_us / us;
  setting.speedups["eager"] = {ratio, ratio * 0.98, ratio * 1.02, 0.99};
  return setting;
}

inline SuiteResult TestItem(const std::string& task, const std::string& decision,
                            std::vector<SuiteSetting> settings = {},
                            const std::string& kernel = "forward.cu") {
  SuiteResult item;
  item.task = task;
  item.direction = "forward";
  item.kernel = kernel;
  item.id = task + "/forward/" + kernel;
  item.decision = decision;
  item.settings = std::move(settings);
  return item;
}

/// Samples around `us` with noise that only makes them longer, as with a real clock.
inline std::vector<double> TestSamples(uint64_t seed, double us, double spread = 0.01) {
  Random random(seed);
  std::vector<double> samples;
  for (int i = 0; i < 60; ++i) samples.push_back(us * (1 + spread * random.Unit()));
  return samples;
}

}  // namespace cupel::report
