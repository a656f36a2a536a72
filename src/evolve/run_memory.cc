// SPDX-License-Identifier: Apache-2.0
#include "evolve/run_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/json.h"
#include "base/printable.h"
#include "base/text.h"
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

namespace {

constexpr size_t kMostIdea = 240;       // bytes
constexpr size_t kMostObjection = 400;  // bytes

/// The first sentence of the author's thought.
std::string IdeaOf(const archive::Candidate& candidate) {
  const auto meta = ParseJson(candidate.meta, "meta");
  if (!meta || !meta->is_object()) return "";
  const std::string thought = JsonString(*meta, "thought", "meta").value_or("");
  const size_t end = thought.find(". ");
  return Fit(Printable(thought.substr(0, end == std::string::npos ? end : end + 1)), kMostIdea);
}

/// A lesson without its numbers and without the lines that it quotes.
std::string KindOf(const std::string& lesson) {
  std::string kind;
  for (const std::string_view line : SplitLines(lesson)) {
    if (line.starts_with("      ")) continue;
    std::ranges::copy_if(line, std::back_inserter(kind), [](char c) { return !IsDigit(c); });
  }
  return kind;
}

}  // namespace

Result<std::optional<std::string>> RunMemory::ObjectionsTo(int64_t id) const {
  constexpr const char* kWhat = "the record of the review stage";
  TRY_ASSIGN(const auto stages, archive_.StagesOf(id));
  for (const archive::Stage& stage : stages) {
    if (stage.name != "review" || stage.passed) continue;
    TRY_ASSIGN(const Json detail, ParseJson(stage.detail, kWhat));
    TRY_ASSIGN(const Json* opinions, JsonArray(detail, "opinions", kWhat));
    std::string text;
    for (const Json& opinion : *opinions) {
      if (!JsonBool(opinion, "usable", kWhat).value_or(false)) continue;
      if (JsonBool(opinion, "fine", kWhat).value_or(true)) continue;
      TRY_ASSIGN(const std::string line, JsonString(opinion, "line", kWhat));
      TRY_ASSIGN(const std::string reason, JsonString(opinion, "reason", kWhat));
      text += fmt::format("- {}\n      | {}\n", Fit(Printable(reason), kMostObjection),
                          Fit(Printable(line), kMostIdea));
    }
    if (text.empty()) break;
    return std::optional<std::string>("Reviewers stopped it before it was judged:\n" + text);
  }
  return std::optional<std::string>();
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
    found = shingles_.emplace(id, Of(*source)).first;
  }
  return &found->second;
}

Shingles RunMemory::Of(const std::string& source) const {
  return form_ == Form::kPython ? Shingles(CodeOfProgram(source)) : Shingles(source);
}

Result<KnownKernel> RunMemory::Known(const archive::Candidate& candidate) {
  KnownKernel known;
  known.name = NameOf(candidate);
  TRY_ASSIGN(const std::string* source, Source(candidate.id));
  known.source = *source;
  if (candidate.objective) known.objective = objective_text_(*candidate.objective);
  known.idea = IdeaOf(candidate);
  TRY_ASSIGN(auto bottleneck, TextOfJudge(archive_, candidate.id, "bottleneck"));
  known.bottleneck = bottleneck.value_or("");
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
    if (!it->proposer.starts_with("llm:") || it->decision == "accepted") continue;
    TRY_ASSIGN(auto lesson, TextOfJudge(archive_, it->id, "lessons"));
    if (!lesson) {
      TRY_ASSIGN(lesson, ObjectionsTo(it->id));
    }
    // The same mistake again and again is one lesson.
    const auto known = [&](const FailedAttempt& one) {
      return KindOf(one.lesson) == KindOf(*lesson);
    };
    if (!lesson || lesson->empty() || std::ranges::any_of(failures, known)) continue;
    failures.push_back({NameOf(*it), *std::move(lesson), ""});
  }
  std::reverse(failures.begin(), failures.end());
  return failures;
}

}  // namespace cupel::evolve
