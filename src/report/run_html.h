// A run as one self-contained HTML page: its lineage, its progress, every candidate with source,
// thought, questions and reasons, the winner and its evidence, and what it all cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "archive/archive.h"
#include "base/result.h"
#include "report/run.h"

namespace cupel::report {

/// What a page holds at most: a phone must be able to open it. What is left out is said on the page
/// and stays in the archive; the best's line comes first.
struct RunPageLimits {
  size_t candidates = 1000;
  size_t exchanges = 5000;
  size_t text_bytes = 256u << 10;  // of one source, prompt or answer
  size_t all_bytes = 24u << 20;    // of all of them, each counted once
};

/// `run` was read from `archive`.
Result<std::string> RunHtml(const Run& run, const archive::Archive& archive,
                            const RunPageLimits& limits = {});

}  // namespace cupel::report
