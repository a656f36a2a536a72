// SPDX-License-Identifier: Apache-2.0
#include "evolve/candidates.h"

#include <utility>

#include "base/json.h"

namespace cupel::evolve {

Result<std::vector<archive::Candidate>> CandidatesBefore(const archive::Archive& archive,
                                                         int generation) {
  TRY_ASSIGN(auto candidates, archive.List());
  std::erase_if(candidates,
                [&](const archive::Candidate& one) { return one.generation >= generation; });
  return candidates;
}

Result<std::optional<std::string>> TextOfJudge(const archive::Archive& archive, int64_t candidate,
                                               const char* member) {
  constexpr const char* kWhat = "the record of the judge stage";
  std::optional<std::string> text;
  TRY_ASSIGN(const auto stages, archive.StagesOf(candidate));
  for (const archive::Stage& stage : stages) {
    const bool is_profile = stage.name == kProfileStage;
    if (!is_profile && (stage.name != "judge" || text)) continue;
    TRY_ASSIGN(const Json detail, ParseJson(stage.detail, kWhat));
    if (!detail.contains(member)) continue;
    TRY_ASSIGN(text, JsonString(detail, member, kWhat));
  }
  return text;
}

const archive::Candidate* BestOf(const std::vector<archive::Candidate>& candidates) {
  const archive::Candidate* best = nullptr;
  for (const archive::Candidate& one : candidates) {
    if (one.objective && (best == nullptr || *one.objective < *best->objective)) best = &one;
  }
  return best;
}

}  // namespace cupel::evolve
