// SPDX-License-Identifier: Apache-2.0
#include "evolve/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/json.h"
#include "evolve/candidates.h"
#include "evolve/tuner.h"

namespace cupel::evolve {
namespace {

constexpr const char* kWhat = "the archive's candidates";
constexpr const char* kTuner = "tuner";  // NewCandidate::proposer

Json ToJson(const Assignment& assignment) {
  Json json = Json::object();
  for (const auto& [name, value] : assignment) json[name] = value;
  return json;
}

Result<Assignment> AssignmentOf(const archive::Candidate& candidate) {
  TRY_ASSIGN(const Json json, ParseJson(candidate.tunables, kWhat));
  Assignment assignment;
  if (!json.is_object())
    return Fail(ErrorCode::kIo, "the tunables in the archive are not an object");
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number_integer()) {
      return Fail(ErrorCode::kIo, "a tunable in the archive is not an integer: " + name);
    }
    assignment[name] = value.get<int64_t>();
  }
  return assignment;
}

/// The candidate whose constants were varied to make this one, or this one if it is not a variant.
Result<int64_t> RootOf(const archive::Candidate& candidate) {
  TRY_ASSIGN(const Json meta, ParseJson(candidate.meta, kWhat));
  return meta.contains("tuned_from") ? JsonInt(meta, "tuned_from", kWhat)
                                     : Result<int64_t>(candidate.id);
}

/// The changes from the parent: "kTile 16 -> 32, kRows 1 -> 2".
std::string Difference(const std::vector<Tunable>& tunables, const Assignment& parent,
                       const Assignment& child) {
  std::string text;
  for (const Tunable& tunable : tunables) {
    const auto value = [&](const Assignment& a) {
      const auto it = a.find(tunable.name);
      return it == a.end() ? tunable.value : it->second;
    };
    if (value(parent) != value(child)) {
      text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", tunable.name, value(parent),
                          value(child));
    }
  }
  return text;
}

/// Values of constants, by name, that variants of this run were refused for and that no accepted
/// candidate has. A constant keeps its name when a model rewrites the kernel, so they also count
/// for other kernels of the run.
class Refusals {
 public:
  /// From the candidates of generations before `generation`.
  static Result<Refusals> Of(const archive::Archive& archive, int generation) {
    Refusals refusals;
    TRY_ASSIGN(const auto candidates, CandidatesBefore(archive, generation));
    std::map<int64_t, Assignment> known;
    std::set<Value> accepted;
    for (const archive::Candidate& one : candidates) {
      TRY_ASSIGN(Assignment assignment, AssignmentOf(one));
      if (one.decision == "accepted") accepted.insert(assignment.begin(), assignment.end());
      const bool refused = one.decision == "rejected" || one.decision == "unsupported";
      if (one.proposer == kTuner && refused && !one.parents.empty()) {
        // Only one changed constant can be blamed.
        const std::vector<Value> changed = Changed(known[one.parents.front()], assignment);
        if (changed.size() == 1) refusals.values_.insert(changed.front());
      }
      known[one.id] = std::move(assignment);
    }
    for (const Value& value : accepted) refusals.values_.erase(value);
    return refusals;
  }

  bool Concern(const Assignment& assignment) const {
    return std::ranges::any_of(assignment,
                               [this](const Value& value) { return values_.contains(value); });
  }

 private:
  using Value = std::pair<const std::string, int64_t>;

  static std::vector<Value> Changed(const Assignment& from, const Assignment& to) {
    std::vector<Value> changed;
    for (const auto& [name, value] : to) {
      const auto before = from.find(name);
      if (before == from.end() || before->second != value) changed.emplace_back(name, value);
    }
    return changed;
  }

  std::set<Value> values_;
};

/// The number of complete generations.
Result<int> GenerationsDone(const archive::Archive& archive) {
  TRY_ASSIGN(const std::string text, archive.State());
  TRY_ASSIGN(const Json state, ParseJson(text, "the run's state"));
  return state.is_object() ? state.value("generation", 0) : 0;
}

}  // namespace

Result<int64_t> AddStart(archive::Archive& archive, const std::string& start) {
  archive::NewCandidate candidate;
  candidate.source = start;
  candidate.proposer = "baseline";
  candidate.description = "the starting kernel";
  TRY_ASSIGN(const auto added, archive.AddCandidate(candidate));
  return added.id;
}

Result<std::vector<int64_t>> AddVariants(archive::Archive& archive, int64_t base, int count,
                                         int generation, Random random) {
  TRY_ASSIGN(const archive::Candidate parent, archive.Get(base));
  TRY_ASSIGN(const int64_t root, RootOf(parent));
  TRY_ASSIGN(const std::string source, archive.Source(root));
  const auto found = FindTunables(source);
  if (!found) return std::vector<int64_t>();  // a model may write an invalid tune comment
  TRY_ASSIGN(const Assignment from, AssignmentOf(parent));
  TRY_ASSIGN(const Refusals refusals, Refusals::Of(archive, generation));
  Status status;
  // Variants that this generation already added count as new: after a kill they are proposed again.
  const auto is_new = [&](const Assignment& assignment) {
    if (refusals.Concern(assignment)) return false;
    const auto variant = Rewrite(source, *found, assignment);
    if (!variant) return false;
    const auto known = archive.FindBySource(*variant);
    if (!known) status = tl::unexpected(known.error());
    return known && (!known->has_value() || (*known)->generation >= generation);
  };
  const auto proposals = Propose(*found, from, count, random, is_new);
  TRY(status);
  std::vector<int64_t> ids;
  for (const Assignment& proposal : proposals) {
    archive::NewCandidate candidate;
    TRY_ASSIGN(candidate.source, Rewrite(source, *found, proposal));
    candidate.proposer = kTuner;
    candidate.description = Difference(*found, from, proposal);
    candidate.tunables = DumpJson(ToJson(proposal));
    candidate.meta = DumpJson(Json{{"operator", "tune"}, {"tuned_from", root}});
    candidate.generation = generation;
    candidate.parents = {base};
    TRY_ASSIGN(const auto added, archive.AddCandidate(candidate));
    ids.push_back(added.id);
  }
  return ids;
}

Result<RunResult> Tune(archive::Archive& archive, Evaluator& evaluator, const std::string& start,
                       const TuningOptions& options) {
  TRY(archive.RequeueInterrupted());
  TRY_ASSIGN(const int64_t first, AddStart(archive, start));
  TRY(evaluator.Evaluate(std::vector<int64_t>{first}));
  TRY_ASSIGN(const archive::Candidate judged, archive.Get(first));
  RunResult result;
  result.start_accepted = judged.objective.has_value();
  if (!result.start_accepted) return result;
  if (evaluator.form() != Form::kCuda) {
    result.end = "the tuner does not vary Python programs; --model evolves them";
    return result;
  }
  TRY_ASSIGN(const auto tunables, FindTunables(start));
  TRY_ASSIGN(int generation, GenerationsDone(archive));
  for (;;) {
    ++generation;
    TRY_ASSIGN(const auto before, CandidatesBefore(archive, generation));
    if (*BestOf(before)->objective <= options.stop_below) {
      result.end = kGoodEnough;
      return result;
    }
    const int left = options.candidates + 1 - static_cast<int>(before.size());
    if (left <= 0) {
      result.end = "all candidates tried";
      return result;
    }
    const Random random = Random(options.seed).Fork(fmt::format("generation {}", generation));
    TRY_ASSIGN(const auto ids, AddVariants(archive, BestOf(before)->id,
                                           std::min(options.batch, left), generation, random));
    if (ids.empty()) {
      result.end = tunables.empty()
                       ? "the kernel marks no constants for the tuner; mark them like this: "
                         "constexpr int kTile = 16;  // tune: kTile in 8, 16, 32"
                       : "no variants left to try";
      return result;
    }
    TRY(evaluator.EvaluateVariants(BestOf(before)->id, ids));
    TRY(archive.PutState(DumpJson(Json{{"generation", generation}})));
  }
}

}  // namespace cupel::evolve
