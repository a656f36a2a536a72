// Which part of the work is the candidate's own: rejects what PyTorch computes in its place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "assay/assay.h"
#include "plan/own_work.h"
#include "records/verdict.h"

namespace cupel::assay {

void AddReason(records::Verdict& verdict, records::Decision decision, records::Reason reason);
records::Decision DecisionFor(bool unsupported);

/// Says what PyTorch computes in the candidate's place, and rejects what is not allowed: calls at
/// other sizes, too. `operators` are those of the judged calls.
void JudgeOperators(records::Verdict& verdict, const Question& question,
                    const std::set<std::string>& operators, bool has_kernel);

/// Rejects a program that is otherwise right, but only copies, fills and converts: that is
/// PyTorch's work, too.
void JudgeCopies(records::Verdict& verdict, const plan::OwnWork& own_work);

}  // namespace cupel::assay
