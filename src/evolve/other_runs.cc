// SPDX-License-Identifier: Apache-2.0
#include "evolve/other_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/printable.h"

namespace cupel::evolve {
namespace {

constexpr double kLeastGain = 1.05;
constexpr int kMostColumns = 400;  // of an idea

}  // namespace

Result<std::vector<ProvenIdea>> ProvenIdeasOf(const archive::Archive& archive,
                                              const std::string& name, size_t most) {
  TRY_ASSIGN(const archive::RunInfo run, archive.Run());
  TRY_ASSIGN(const auto candidates, archive.List());
  std::map<int64_t, double> objectives;
  for (const archive::Candidate& one : candidates) {
    if (one.objective) objectives[one.id] = *one.objective;
  }
  std::vector<ProvenIdea> ideas;
  for (const archive::Candidate& one : candidates) {
    if (!one.objective || one.parents.empty() || !one.proposer.starts_with("llm:")) continue;
    const auto parent = objectives.find(one.parents.front());
    if (parent == objectives.end() || parent->second < kLeastGain * *one.objective) continue;
    const auto meta = ParseJson(one.meta, "the meta data of a candidate");
    if (!meta) continue;
    const std::string thought = JsonString(*meta, "thought", "meta").value_or("");
    if (thought.empty()) continue;
    ideas.push_back({Printable(run.task), Printable(run.direction), name, one.id, parent->second,
                     *one.objective, Fit(Printable(thought), kMostColumns)});
  }
  std::ranges::stable_sort(ideas, std::greater<>(), &ProvenIdea::gain);
  if (ideas.size() > most) ideas.resize(most);
  return ideas;
}

std::string Text(const ProvenIdea& idea) {
  return fmt::format("{} {}, {:.2f}x (candidate {} of {}): {}", idea.task, idea.direction,
                     idea.gain(), idea.candidate, Printable(idea.run), idea.idea);
}

Json ToJson(const std::vector<ProvenIdea>& ideas) {
  Json json = Json::array();
  for (const ProvenIdea& one : ideas) {
    json.push_back({{"task", one.task},
                    {"direction", one.direction},
                    {"run", one.run},
                    {"candidate", one.candidate},
                    {"before", one.before},
                    {"after", one.after},
                    {"idea", one.idea}});
  }
  return json;
}

Result<std::vector<ProvenIdea>> ProvenIdeasFromJson(const Json& json) {
  constexpr const char* kWhat = "the run's lessons of other runs";
  if (!json.is_array()) {
    return Fail(ErrorCode::kInvalidArgument, std::string(kWhat) + " must be an array");
  }
  std::vector<ProvenIdea> ideas;
  for (const Json& entry : json) {
    ProvenIdea one;
    TRY_ASSIGN(one.task, JsonString(entry, "task", kWhat));
    TRY_ASSIGN(one.direction, JsonString(entry, "direction", kWhat));
    TRY_ASSIGN(one.run, JsonString(entry, "run", kWhat));
    TRY_ASSIGN(one.candidate, JsonInt(entry, "candidate", kWhat));
    TRY_ASSIGN(one.before, JsonNumber(entry, "before", kWhat));
    TRY_ASSIGN(one.after, JsonNumber(entry, "after", kWhat));
    TRY_ASSIGN(one.idea, JsonString(entry, "idea", kWhat));
    if (!(one.before > 0) || !(one.after > 0)) {
      return Fail(ErrorCode::kInvalidArgument, std::string(kWhat) + ": times must be positive");
    }
    ideas.push_back(std::move(one));
  }
  return ideas;
}

}  // namespace cupel::evolve
