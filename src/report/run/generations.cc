// SPDX-License-Identifier: Apache-2.0
#include "report/run/generations.h"

#include <algorithm>
#include <limits>
#include <map>

#include "report/loose_json.h"

namespace cupel::report {
namespace {

constexpr size_t kMostUnusable = 200, kMostContributors = 500;

/// The details of the "generation" events: one per generation and island.
std::vector<Json> GenerationEvents(const std::vector<archive::Event>& events) {
  std::vector<Json> details;
  for (const archive::Event& event : events) {
    if (event.kind == "generation") details.push_back(ObjectFrom(event.detail));
  }
  return details;
}

void Add(const Json& detail, const char* key, std::optional<int64_t>& sum) {
  if (const auto value = IntAt(detail, key)) sum = sum.value_or(0) + *value;
}

/// A generation's number; nullopt if it is missing or out of range.
std::optional<int> NumberOf(const Json& detail) {
  const auto number = IntAt(detail, "generation");
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*number);
}

void Count(const RunCandidate& candidate, RunContributor& contributor) {
  ++contributor.candidates;
  contributor.judged += candidate.judged;
  contributor.accepted += candidate.accepted();
  contributor.new_bests += candidate.new_best;
  if (candidate.objective && (!contributor.best || *candidate.objective < *contributor.best)) {
    contributor.best = candidate.objective;
  }
}

RunContributor& Contributor(std::map<std::string, RunContributor>& contributors,
                            const std::string& name) {
  RunContributor& contributor = contributors[name];
  contributor.name = name;
  return contributor;
}

/// Takes the loop's values from its events. Later events override earlier ones.
void TakeLast(const std::vector<archive::Event>& events, const char* list, const char* name,
              const char* asked, const char* rewarded,
              std::map<std::string, RunContributor>& contributors) {
  for (const Json& detail : GenerationEvents(events)) {
    for (const Json& item : ListAt(detail, list)) {
      std::string key = TextAt(item, name, 200);
      if (key.empty()) {
        if (const auto number = IntAt(item, name)) key = std::to_string(*number);
      }
      if (key.empty() || (contributors.size() >= kMostContributors && contributors.count(key) == 0))
        continue;
      RunContributor& contributor = Contributor(contributors, key);
      if (std::string text = TextAt(item, "text"); !text.empty())
        contributor.text = std::move(text);
      if (const auto value = NumberAt(item, asked)) contributor.asked = value;
      if (const auto value = NumberAt(item, rewarded)) contributor.rewarded = value;
      if (const auto value = NumberAt(item, "expected")) contributor.expected = value;
    }
  }
}

/// Sorted by new bests, then by accepted candidates, then by name.
std::vector<RunContributor> Ordered(const std::map<std::string, RunContributor>& contributors) {
  std::vector<RunContributor> order;
  order.reserve(contributors.size());
  for (const auto& [name, contributor] : contributors) order.push_back(contributor);
  std::stable_sort(order.begin(), order.end(),
                   [](const RunContributor& a, const RunContributor& b) {
                     if (a.new_bests != b.new_bests) return a.new_bests > b.new_bests;
                     return a.accepted > b.accepted;
                   });
  return order;
}

}  // namespace

std::vector<RunGeneration> GenerationsOf(const Run& run,
                                         const std::vector<archive::Event>& events) {
  std::map<int, RunGeneration> generations;
  for (const RunCandidate& candidate : run.candidates) {
    RunGeneration& generation = generations[candidate.generation];
    ++generation.candidates;
    generation.judged += candidate.judged;
    generation.accepted += candidate.accepted();
    if (candidate.objective && (!generation.best || *candidate.objective < *generation.best)) {
      generation.best = candidate.objective;
      generation.best_candidate = candidate.id;
    }
  }
  for (const Json& detail : GenerationEvents(events)) {
    const auto number = NumberOf(detail);
    if (!number) continue;
    RunGeneration& generation = generations[*number];
    Add(detail, "asked", generation.asked);
    Add(detail, "unusable", generation.unusable);
    Add(detail, "copies", generation.copies);
    Add(detail, "reviewed", generation.reviewed);
    if (const auto seconds = NumberAt(detail, "seconds")) {
      generation.seconds = generation.seconds.value_or(0) + *seconds;
    }
  }
  std::vector<RunGeneration> rows;
  for (auto& [number, generation] : generations) {
    generation.generation = number;
    if (!rows.empty() && rows.back().best &&
        (!generation.best || *rows.back().best <= *generation.best)) {
      generation.best = rows.back().best;
      generation.best_candidate = rows.back().best_candidate;
    }
    rows.push_back(generation);
  }
  return rows;
}

std::vector<RunContributor> ModelsOf(const Run& run, const std::vector<archive::Event>& events) {
  std::map<std::string, RunContributor> contributors;
  for (const RunCandidate& candidate : run.candidates) {
    if (!candidate.model.empty()) Count(candidate, Contributor(contributors, candidate.model));
  }
  TakeLast(events, "models", "name", "asked", "rewarded", contributors);
  return Ordered(contributors);
}

std::vector<RunContributor> HintsOf(const Run& run, const std::vector<archive::Event>& events) {
  std::map<std::string, RunContributor> contributors;
  for (const RunCandidate& candidate : run.candidates) {
    for (const std::string& hint : candidate.hints)
      Count(candidate, Contributor(contributors, hint));
  }
  TakeLast(events, "hints", "id", "tried", "earned", contributors);
  return Ordered(contributors);
}

std::vector<RunUnusable> UnusableOf(const std::vector<archive::Event>& events) {
  std::vector<RunUnusable> unusable;
  for (const archive::Event& event : events) {
    if (event.kind != "unusable" && event.kind != "generation") continue;
    const Json detail = ObjectFrom(event.detail);
    const auto add = [&](const Json& one) {
      if (unusable.size() == kMostUnusable) return;
      unusable.push_back({IntAt(detail, "generation"), TextAt(one, "model", 200),
                          TextAt(one, "exchange", 200), TextAt(one, "reason")});
    };
    // Translation records an event for each answer; the loop one event per generation.
    if (event.kind == "unusable") add(detail);
    for (const Json& one : ListAt(detail, "problems")) add(one);
  }
  return unusable;
}

}  // namespace cupel::report
