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

/// The stage that adds a profile on a GPU to what the "judge" stage recorded.
inline constexpr const char* kProfileStage = "profile";

/// A text that the stage "profile", or else "judge", recorded for a candidate: "feedback" if it was
/// accepted, "lessons" if not. nullopt if there is none.
Result<std::optional<std::string>> TextOfJudge(const archive::Archive& archive, int64_t candidate,
                                               const char* member);

/// The accepted candidate with the smallest objective; the oldest among equals. Null if there is
/// none.
const archive::Candidate* BestOf(const std::vector<archive::Candidate>& candidates);

}  // namespace cupel::evolve
