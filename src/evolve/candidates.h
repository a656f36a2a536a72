// Looking back over a run's candidates. A generation decides by what earlier generations left: what
// it has itself added before a kill must not change what it does when it is done again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"

namespace cupel::evolve {

/// All of earlier generations, by id.
Result<std::vector<archive::Candidate>> CandidatesBefore(const archive::Archive& archive,
                                                         int generation);

/// A text that the judge's stage left of a candidate: "feedback" of one that is right, "lessons" of
/// one that is not. nullopt where it left none.
Result<std::optional<std::string>> TextOfJudge(const archive::Archive& archive, int64_t candidate,
                                               const char* member);

/// The accepted one with the smallest objective, the oldest among equals; null when there is none.
const archive::Candidate* BestOf(const std::vector<archive::Candidate>& candidates);

}  // namespace cupel::evolve
