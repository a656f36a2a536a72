// Writes a run as one self-contained HTML page: its lineage and progress, every candidate with
// source, thought, questions and reasons, the winner with its evidence, and the cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "archive/archive.h"
#include "base/result.h"
#include "report/run/run.h"

namespace cupel::report {

/// Limits the size of a page, so that a phone can open it. The page states what was left out, which
/// is still in the archive. The best's lineage has priority.
struct RunPageLimits {
  size_t candidates = 1000;
  size_t exchanges = 5000;
  size_t text_bytes = 256u << 10;  // of one source, prompt or answer
  size_t all_bytes = 24u << 20;    // of all texts, each counted once
};

/// `run` must have been read from `archive`.
Result<std::string> RunHtml(const Run& run, const archive::Archive& archive,
                            const RunPageLimits& limits = {});

}  // namespace cupel::report
