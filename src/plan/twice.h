// Plans of several calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.h"

namespace cupel::plan {

/// Two calls in a row: the nodes after the prepared ones, twice. The outputs are the second call's.
Plan TwiceCalled(const Plan& plan);

}  // namespace cupel::plan
