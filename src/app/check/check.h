// Builds and judges one kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/options.h"
#include "assay/assay.h"
#include "base/events.h"
#include "base/result.h"

namespace cupel::app {

/// The verdict, and the plan of the first setting if one was recorded.
Result<assay::Judged> Check(const CheckOptions& options, Events& events);

}  // namespace cupel::app
