// Generations, models and hints of a run: what the candidates tell, and what the loop's own events
// add. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "report/run.h"

namespace cupel::report {

/// By number. Needs the candidates.
std::vector<RunGeneration> GenerationsOf(const Run& run, const std::vector<archive::Event>& events);

/// Who proposed and which hints were given, best earners first. Need the candidates.
std::vector<RunEarner> ModelsOf(const Run& run, const std::vector<archive::Event>& events);
std::vector<RunEarner> HintsOf(const Run& run, const std::vector<archive::Event>& events);

/// Answers that no candidate could be made of.
std::vector<RunUnusable> UnusableOf(const std::vector<archive::Event>& events);

}  // namespace cupel::report
