// SPDX-License-Identifier: Apache-2.0
#include "evolve/run_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "evolve/candidates.h"

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
    Shingles shingles =
        form_ == Form::kPython ? Shingles(CodeOfProgram(*source)) : Shingles(*source);
    found = shingles_.emplace(id, std::move(shingles)).first;
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
  TRY_ASSIGN(const auto feedback, TextOfJudge(archive_, candidate.id, "feedback"));
  parent.feedback = feedback.value_or("");
  return parent;
}

Result<std::vector<FailedAttempt>> RunMemory::Failures(
    const std::vector<archive::Candidate>& candidates, int count) {
  std::vector<FailedAttempt> failures;
  for (auto it = candidates.rbegin();
       it != candidates.rend() && static_cast<int>(failures.size()) < count; ++it) {
    if (it->decision.empty() || it->decision == "accepted") continue;
    TRY_ASSIGN(auto lesson, TextOfJudge(archive_, it->id, "lessons"));
    if (lesson && !lesson->empty()) failures.push_back({NameOf(*it), *std::move(lesson)});
  }
  std::reverse(failures.begin(), failures.end());
  return failures;
}

}  // namespace cupel::evolve
