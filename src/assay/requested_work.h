// The GPU work that a candidate requests, as a text that is equal for candidates that request the
// same: a variant whose changed constant has no effect need not be judged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "assay/assay.h"

namespace cupel::assay {

/// A hash over the plans of one call at each setting of `question` that the task's reference
/// supports, and over the code of the kernels that they launch, without their names and lines.
/// nullopt if a call cannot be recorded: judging says why. `seed`: of the calls' arguments.
Result<std::optional<std::string>> RequestedWork(const Candidate& candidate,
                                                 const Question& question, const Parts& parts,
                                                 uint64_t seed);

}  // namespace cupel::assay
