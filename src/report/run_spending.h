// What a run spent: questions to models by role, and how far it had got at a moment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "report/run.h"

namespace cupel::report {

/// By role and model, in order of appearance. Needs the candidates. Questions without an end count
/// at their worst.
std::vector<RunQuestions> QuestionsOf(const std::vector<archive::Exchange>& exchanges,
                                      const Run& run);

/// Everything until `until_ms`. Time in which nobody drove the run, from its last sign of life to
/// each "resumed", does not count.
RunSpent SpentUntil(int64_t until_ms, const Run& run,
                    const std::vector<archive::Exchange>& exchanges,
                    const std::vector<archive::Event>& events);

}  // namespace cupel::report
