// Generations, models and hints of a run, from its candidates and the loop's events.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "report/run/run.h"

namespace cupel::report {

/// The generations by number. `run` must already have its candidates.
std::vector<RunGeneration> GenerationsOf(const Run& run, const std::vector<archive::Event>& events);

/// The models that proposed and the hints that were given, the most successful first. `run` must
/// already have its candidates.
std::vector<RunContributor> ModelsOf(const Run& run, const std::vector<archive::Event>& events);
std::vector<RunContributor> HintsOf(const Run& run, const std::vector<archive::Event>& events);

/// Answers from which no candidate could be made.
std::vector<RunUnusable> UnusableOf(const std::vector<archive::Event>& events);

}  // namespace cupel::report
