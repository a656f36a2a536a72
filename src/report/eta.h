// Estimates the remaining time of a suite. The times of items differ by a factor of a hundred, so
// an average over few items says little. An item's estimate is the mean of its problem's other
// kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cupel::report {

class Eta {
 public:
  /// Records that an item of `group` took `seconds`, summed over its workers.
  void Finished(const std::string& group, double seconds);
  /// Seconds until `workers` workers have done items of these groups, if they do not share items.
  /// Nullopt before the first Finished.
  std::optional<double> Left(const std::vector<std::string>& groups, size_t workers) const;

 private:
  struct Sum {
    double seconds = 0;
    size_t items = 0;
  };
  std::map<std::string, Sum> groups_;
};

}  // namespace cupel::report
