// Wilson's score interval of a proportion (E. B. Wilson, JASA 1927): honest for few samples and
// near 0 and 1, where the usual one is not. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "stats/robust.h"

namespace cupel::stats {

/// `hits` of `trials`, at 95 %. Without trials everything is possible: estimate 0, [0, 1].
Interval Wilson(int64_t hits, int64_t trials);

}  // namespace cupel::stats
