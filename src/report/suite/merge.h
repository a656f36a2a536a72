// Merges several results of one suite. A suite may be judged in pieces, on several machines, or
// some of its kernels may be judged again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace cupel::report {

struct NamedResults {
  std::string name;  // used in the merged document to name an item's origin
  Json document;     // cupel.suite/1
};

/// Merges the items of all `pieces`, which must not be empty, in the order of their first
/// occurrence. If several pieces have judged an item, the last result is used. Scores are computed
/// again. The member "merged" describes each piece, and each item's "from" names its piece. Errors:
/// kInvalidArgument (not results of a suite, or of different devices, whose times are not
/// comparable), kUnsupported (a newer schema).
Result<Json> MergeSuites(const std::vector<NamedResults>& pieces);

}  // namespace cupel::report
