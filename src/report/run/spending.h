// What a run spent: questions to models by role, and the total until a point in time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "report/run/run.h"

namespace cupel::report {

/// By role and model, in order of appearance. `run` must already have its candidates. Questions
/// without an end count with their largest cost.
std::vector<RunQuestions> QuestionsOf(const std::vector<archive::Exchange>& exchanges,
                                      const Run& run);

/// The total until `until_ms`. Interruptions, from the last record to each "resumed", do not count.
RunSpent SpentUntil(int64_t until_ms, const Run& run,
                    const std::vector<archive::Exchange>& exchanges,
                    const std::vector<archive::Event>& events);

}  // namespace cupel::report
