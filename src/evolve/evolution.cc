// SPDX-License-Identifier: Apache-2.0
#include "evolve/evolution.h"

#include <fmt/format.h>

#include <utility>

#include "evolve/candidates.h"
#include "evolve/generation.h"
#include "evolve/run_memory.h"
#include "evolve/search_state.h"

namespace cupel::evolve {
namespace {

llm::Ensemble EnsembleOf(const EvolutionParts& parts, const EvolutionOptions& options) {
  std::vector<llm::Ensemble::Member> members;
  for (size_t i = 0; i < parts.proposers.size(); ++i) {
    llm::Ensemble::Member member;
    member.name = parts.proposers[i]->model();
    if (i < options.weights.size()) member.weight = options.weights[i];
    members.push_back(std::move(member));
  }
  llm::EnsembleOptions ensemble;
  ensemble.seed = Random(options.seed).Fork("ensemble")();
  if (!options.bandit) ensemble.floor = 1;
  return llm::Ensemble(std::move(members), ensemble);
}

/// The state after the last complete generation, or the initial state.
Result<SearchState> StateOfRun(const EvolutionParts& parts, const EvolutionOptions& options,
                               const archive::Candidate& start) {
  SearchState state{0, EnsembleOf(parts, options), Hints::BuiltIn(),
                    MakeIslands(std::max(1, options.islands)), false};
  TRY_ASSIGN(const std::string text, parts.archive.State());
  TRY_ASSIGN(const Json json, ParseJson(text, "the run's state"));
  if (json.is_object()) {
    TRY(Restore(json, state));
    return state;
  }
  for (Island& island : state.islands) AddMember(island, {start.id, *start.objective});
  const auto recorded = options.recorded_reading.find(1);
  if (recorded != options.recorded_reading.end()) state.reads = recorded->second;
  return state;
}

}  // namespace

Result<RunResult> Evolve(const EvolutionParts& parts, const std::string& start,
                         const EvolutionOptions& options) {
  CHECK(!parts.proposers.empty() && !parts.reviewers.empty());
  parts.evaluator.scale().generations = options.generations;
  TRY(parts.archive.RequeueInterrupted());
  TRY_ASSIGN(const int64_t first, AddStart(parts.archive, start));
  TRY(parts.evaluator.Evaluate(std::vector<int64_t>{first}));
  TRY_ASSIGN(const archive::Candidate judged, parts.archive.Get(first));
  RunResult result;
  result.start_accepted = judged.objective.has_value();
  if (!result.start_accepted) return result;
  TRY_ASSIGN(SearchState state, StateOfRun(parts, options, judged));
  RunMemory memory(parts.archive, parts.evaluator.objective_text(), parts.evaluator.form());
  while (state.generation < options.generations) {
    // Without those of a generation that was interrupted, as in an undisturbed run.
    TRY_ASSIGN(const auto before, CandidatesBefore(parts.archive, state.generation + 1));
    const archive::Candidate* best = BestOf(before);
    if (best != nullptr && *best->objective <= options.stop_below) {
      result.end = kGoodEnough;
      return result;
    }
    TRY_ASSIGN(const Json facts, RunGeneration(parts, options, state, memory));
    TRY(parts.archive.PutState(DumpJson(ToJson(state)), "generation", DumpJson(facts)));
  }
  result.end = fmt::format("all {} generations done", options.generations);
  return result;
}

}  // namespace cupel::evolve
