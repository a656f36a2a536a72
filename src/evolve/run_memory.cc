// SPDX-License-Identifier: Apache-2.0
#include "evolve/run_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"

namespace cupel::evolve {

std::string NameOf(const archive::Candidate& candidate) {
  const auto meta = ParseJson(candidate.meta, "meta");
  if (meta && meta->is_object() && meta->contains("name") && (*meta)["name"].is_string()) {
    std::string name = (*meta)["name"];
    if (!name.empty()) return name;
  }
  return candidate.description.empty() ? fmt::format("candidate {}", candidate.id)
                                       : candidate.description;
}

Result<const std::string*> RunMemory::Source(int64_t id) {
  auto found = sources_.find(id);
  if (found == sources_.end()) {
    TRY_ASSIGN(std::string source, archive_.Source(id));
    found = sources_.emplace(id, std::move(source)).first;
  }
  return &found->second;
}

Result<const Shingles*> RunMemory::ShinglesOf(int64_t id) {
  auto found = shingles_.find(id);
  if (found == shingles_.end()) {
    TRY_ASSIGN(const std::string* source, Source(id));
    found = shingles_.emplace(id, Shingles(*source)).first;
  }
  return &found->second;
}

Result<KnownKernel> RunMemory::Known(const archive::Candidate& candidate) {
  KnownKernel known;
  known.name = NameOf(candidate);
  TRY_ASSIGN(const std::string* source, Source(candidate.id));
  known.source = *source;
  if (candidate.objective) known.objective = objective_text_(*candidate.objective);
  return known;
}

Result<ParentKernel> RunMemory::Parent(const archive::Candidate& candidate) {
  ParentKernel parent;
  TRY_ASSIGN(static_cast<KnownKernel&>(parent), Known(candidate));
  TRY_ASSIGN(parent.feedback, OfJudge(candidate.id, "feedback"));
  return parent;
}

Result<std::vector<FailedAttempt>> RunMemory::Failures(
    const std::vector<archive::Candidate>& candidates, int count) {
  std::vector<FailedAttempt> failures;
  for (auto it = candidates.rbegin();
       it != candidates.rend() && static_cast<int>(failures.size()) < count; ++it) {
    if (it->decision.empty() || it->decision == "accepted") continue;
    FailedAttempt failure;
    failure.name = NameOf(*it);
    TRY_ASSIGN(failure.lesson, OfJudge(it->id, "lessons"));
    if (!failure.lesson.empty()) failures.push_back(std::move(failure));
  }
  std::reverse(failures.begin(), failures.end());
  return failures;
}

Result<std::string> RunMemory::OfJudge(int64_t id, const char* member) const {
  TRY_ASSIGN(const auto stages, archive_.StagesOf(id));
  for (const archive::Stage& stage : stages) {
    if (stage.name != "judge") continue;
    TRY_ASSIGN(const Json detail, ParseJson(stage.detail, "what the judge's stage left"));
    if (detail.contains(member)) return JsonString(detail, member, "what the judge's stage left");
  }
  return std::string();
}

}  // namespace cupel::evolve
