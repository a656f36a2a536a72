// Outputs that are indices of ranked elements (sort, top-k). Equal elements may be in any order, so
// an index that names an equal element as the truth does is right, unless the row names it twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "task/case.h"

namespace cupel::judge {

/// The bytes of `got`, with right indices replaced by those of the truth. `got` has contiguous
/// elements of the output's type: those from `first` on, in the order of the whole output. `want`
/// has a ranking, and a truth that fits its shape.
std::vector<std::byte> WithIndicesOfTruth(const task::Tensor& got, int64_t first,
                                          const task::Output& want);

}  // namespace cupel::judge
