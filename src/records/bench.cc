// SPDX-License-Identifier: Apache-2.0
#include "records/bench.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "records/bench_fields.h"

namespace cupel::records {

std::string_view Name(ArithmeticUnit unit) { return NameOf(unit); }

const Timing* SettingTimes::Find(const std::string& name) const {
  const auto found = std::ranges::find(timings, name, &Timing::name);
  return found == timings.end() ? nullptr : &*found;
}

std::vector<MeanRatio> Bench::GeometricMeans() const {
  std::map<std::pair<std::string, std::string>, std::vector<double>> ratios;
  for (const SettingTimes& setting : settings) {
    for (const TimeComparison& one : setting.comparisons) {
      const double ratio = one.compared.ratio.estimate;
      // Benches of other machines may be malformed.
      if (!std::isfinite(ratio) || ratio <= 0 || one.a.empty() || one.b.empty()) continue;
      ratios[{one.a, one.b}].push_back(ratio);
    }
  }
  std::vector<MeanRatio> means;
  means.reserve(ratios.size());
  for (const auto& [names, values] : ratios) {
    means.push_back({names.first, names.second, stats::GeometricMean(values),
                     static_cast<int64_t>(values.size())});
  }
  return means;
}

}  // namespace cupel::records
