// A run as JSON: "cupel.run/1" (docs/formats/run.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "report/run/run.h"

namespace cupel::report {

Json RunDocument(const Run& run);

Json ToJson(const RunReason& reason);
Json ToJson(const RunSpent& spent);

}  // namespace cupel::report
