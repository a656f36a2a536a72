// Which recorded calls request the same kind of work, so that judging one of them says most about
// the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace cupel::assay {

/// Two plans have the same kind if they have the same kernels (template instances), blocks, launch
/// attributes, axes of grids, flags among the kernels' parameters, and library calls, in the same
/// order. A word of a kernel's parameters is a flag if it is 0 or 1 in all plans.
class WorkKinds {
 public:
  /// Add all plans before asking for kinds.
  void Add(const plan::Plan& plan);
  std::string Of(const plan::Plan& plan) const;

 private:
  std::map<std::pair<int, std::string>, std::vector<bool>> flags_;  // by kernel: its words
};

}  // namespace cupel::assay
