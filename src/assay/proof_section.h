// The part of a verdict that says whether the kernel computes the task's function of real numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "assay/assay.h"
#include "base/result.h"
#include "records/verdict.h"

namespace cupel::assay {

/// Tries to prove an accepted candidate at the first setting where that costs little. Adds a limit
/// if it differs. Errors: those of the parts.
Status AddProof(const Parts& parts, const Candidate& candidate, const Question& question,
                records::Verdict& verdict);

}  // namespace cupel::assay
