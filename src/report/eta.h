// How long a suite will still take. Items differ by a factor of a hundred, so the mean pace says
// little while few are done: what is known of a problem's other kernels counts first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cupel::report {

class Eta {
 public:
  /// An item of `group` took so long, of all its workers together.
  void Finished(const std::string& group, double seconds);
  /// Seconds until items of these groups are done by so many workers, if no item is shared among
  /// them; nothing is known before the first one is.
  std::optional<double> Left(const std::vector<std::string>& groups, size_t workers) const;

 private:
  struct Sum {
    double seconds = 0;
    size_t items = 0;
  };
  std::map<std::string, Sum> groups_;
};

}  // namespace cupel::report
