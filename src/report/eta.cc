// SPDX-License-Identifier: Apache-2.0
#include "report/eta.h"

#include <algorithm>

#include "stats/robust.h"

namespace cupel::report {

void Eta::Finished(const std::string& group, double seconds) {
  Sum& sum = groups_[group];
  sum.seconds += std::max(0.0, seconds);
  ++sum.items;
}

std::optional<double> Eta::Left(const std::vector<std::string>& groups, size_t workers) const {
  if (groups_.empty() || workers == 0) return {};
  std::vector<double> means;
  means.reserve(groups_.size());
  for (const auto& [group, sum] : groups_) {
    means.push_back(sum.seconds / static_cast<double>(sum.items));
  }
  // Bound the means, so that one very long group does not dominate the estimate for new groups.
  const double bound = 4 * stats::Median(means);
  double total = 0, unknown = 0;
  for (const double mean : means) unknown += std::min(mean, bound);
  unknown /= static_cast<double>(means.size());
  double longest = 0;
  for (const std::string& group : groups) {
    const auto known = groups_.find(group);
    const double seconds = known == groups_.end()
                               ? unknown
                               : known->second.seconds / static_cast<double>(known->second.items);
    total += seconds;
    longest = std::max(longest, seconds);
  }
  return std::max(longest, total / static_cast<double>(workers));
}

}  // namespace cupel::report
