// The difference of two plans, for messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/plan.h"

namespace cupel::record {

/// Describes the first difference: `"launch …" became "launch …"`.
std::string Difference(const plan::Plan& before, const plan::Plan& after);

}  // namespace cupel::record
