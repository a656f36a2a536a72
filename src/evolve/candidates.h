// Reads a run's candidates from its archive. A generation decides by the candidates of earlier
// generations only. A run that was killed repeats its last generation, and candidates that it had
// already added must not change its decisions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"

namespace cupel::evolve {

/// All candidates of generations before `generation`, ordered by id.
Result<std::vector<archive::Candidate>> CandidatesBefore(const archive::Archive& archive,
                                                         int generation);

/// A text that the "judge" stage recorded for a candidate: "feedback" if it was accepted, "lessons"
/// if not. nullopt if there is none.
Result<std::optional<std::string>> TextOfJudge(const archive::Archive& archive, int64_t candidate,
                                               const char* member);

/// The accepted candidate with the smallest objective; the oldest among equals. Null if there is
/// none.
const archive::Candidate* BestOf(const std::vector<archive::Candidate>& candidates);

}  // namespace cupel::evolve
