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
  TRY_ASSIGN(const auto stages, archive.StagesOf(candidate));
  for (const archive::Stage& stage : stages) {
    if (stage.name != "judge") continue;
    TRY_ASSIGN(const Json detail, ParseJson(stage.detail, kWhat));
    if (!detail.contains(member)) continue;
    TRY_ASSIGN(std::string text, JsonString(detail, member, kWhat));
    return std::optional<std::string>(std::move(text));
  }
  return std::optional<std::string>();
}

const archive::Candidate* BestOf(const std::vector<archive::Candidate>& candidates) {
  const archive::Candidate* best = nullptr;
  for (const archive::Candidate& one : candidates) {
    if (one.objective && (best == nullptr || *one.objective < *best->objective)) best = &one;
  }
  return best;
}

}  // namespace cupel::evolve
