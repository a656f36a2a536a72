// The results of `cupel task filter` as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/tasks/task_filter.h"

namespace cupel::cli {

/// A page about one task: a table of checks for each setting, and what to do about each flag.
std::string FilterText(const app::FilteredTask& task);
/// One line for each task, and counts.
std::string FilterSummary(const app::FilterReport& report);

}  // namespace cupel::cli
