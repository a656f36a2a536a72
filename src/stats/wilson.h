// Wilson's score interval of a proportion (E. B. Wilson, JASA 1927). Unlike the usual interval it
// is accurate for few samples and near 0 and 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "stats/robust.h"

namespace cupel::stats {

/// The interval at 95 % for `hits` of `trials`. Without trials: estimate 0, interval [0, 1].
Interval Wilson(int64_t hits, int64_t trials);

}  // namespace cupel::stats
