// Several results of one suite as one: a suite may be judged in pieces, on several machines, or a
// few kernels of it anew. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace cupel::report {

struct NamedResults {
  std::string name;  // by which the merged document tells where an item is from
  Json document;     // cupel.suite/1
};

/// A document whose items are those of all `pieces`, of which there is at least one, in the order
/// of the first that has them. Of an item that several have judged the last one's result stands.
/// Scores are counted anew; the member "merged" tells of each piece, and each item's "from" which
/// it is of. Errors: kInvalidArgument (not results of a suite, or of different devices, as times
/// are not comparable then), kUnsupported (a newer schema).
Result<Json> MergeSuites(const std::vector<NamedResults>& pieces);

}  // namespace cupel::report
