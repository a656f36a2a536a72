// Judges the configurations among which a program's autotuners would choose by their times: on the
// user's machine any of them may be the fastest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/assay.h"
#include "records/verdict.h"

namespace cupel::assay {

struct TriedConfigurations {
  std::vector<records::Reason> reasons;  // of each configuration that is wrong
  std::string note;                      // how many were tried, and how
};

/// Judges each configuration after the first, of `count`, in one trial of the question's first
/// setting; at most 32. `program` is a Python program. Error: as Assay::Judge.
Result<TriedConfigurations> TryConfigurations(const Candidate& program, const Question& question,
                                              const Parts& parts, int count, uint64_t seed);

}  // namespace cupel::assay
