// SPDX-License-Identifier: Apache-2.0
#include "app/search/evolve_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "app/models.h"
#include "evolve/conversations.h"
#include "evolve/evolution.h"
#include "evolve/translator.h"

namespace cupel::app {
namespace {

/// The kernel to start from: the given one, or one that models write. nullopt if no model writes a
/// correct one.
Result<std::optional<std::string>> StartOf(const evolve::EvolutionParts& parts,
                                           const StoredRun& stored) {
  if (!stored.start.empty()) return std::optional<std::string>(stored.start);
  evolve::TranslateOptions options;
  options.operation = stored.operation;
  TRY_ASSIGN(const evolve::Translation translation,
             evolve::Translate(parts.archive, parts.evaluator, parts.proposers, options));
  if (!translation.kernel) return std::optional<std::string>();
  TRY_ASSIGN(std::string source, parts.archive.Source(*translation.kernel));
  return std::optional<std::string>(std::move(source));
}

}  // namespace

Result<evolve::RunResult> EvolveRun(const OptimizeOptions& options, OpenRun& run,
                                    const StoredRun& stored, evolve::Evaluator& evaluator,
                                    const Recording* recording, const References& references,
                                    double stop_below) {
  TRY_ASSIGN(evolve::EvolutionOptions evolution, EvolutionOptionsOf(options));
  evolution.seed = run.info.seed;
  evolution.stop = options.common.stop;
  evolution.operation = stored.operation;
  evolution.fit = stored.fit;
  evolution.proven = stored.proven;
  evolution.stop_below = stop_below;
  if (options.objective == "time" && references.floor_us > 0) {
    evolution.floor = fmt::format("{:.3g} us", references.floor_us);
    evolution.compared = references.settings;
  }
  evolution.review = stored.review;
  TRY_ASSIGN(auto specs, SpecsOf(options.search.models));
  for (const llm::ModelSpec& spec : specs) evolution.weights.push_back(spec.weight);
  TRY_ASSIGN(auto reviewers, llm::ParseModelSpecs(options.search.reviewers));
  std::move(reviewers.begin(), reviewers.end(), std::back_inserter(specs));
  llm::RecordedOptions conversing;
  conversing.seed = run.info.seed;
  conversing.stop = options.common.stop;
  if (recording == nullptr) {
    conversing.limits = LimitsOf(options.search.models);
  } else {
    conversing.replay = &recording->exchanges;
    evolution.recorded_reading = recording->reading;
  }
  TRY_ASSIGN(const auto conversations, evolve::Conversations::Open(run.archive, specs, conversing));
  const auto askers = conversations->askers();
  const auto split =
      askers.begin() + static_cast<std::ptrdiff_t>(options.search.models.specs.size());
  evolve::EvolutionParts parts{
      run.archive, evaluator, *conversations, {askers.begin(), split}, {split, askers.end()}};
  if (parts.reviewers.empty()) parts.reviewers = {parts.proposers.front()};
  evolve::RunResult ended;
  const auto start = StartOf(parts, stored);
  if (start && !*start) {
    ended.end = "no model wrote a correct kernel";
    return ended;
  }
  auto result = start ? evolve::Evolve(parts, **start, evolution)
                      : Result<evolve::RunResult>(tl::unexpected(start.error()));
  if (!result && recording != nullptr && result.error().code == ErrorCode::kNotFound) {
    ended.start_accepted = true;
    ended.end = "the recording ends here";
    return ended;
  }
  return result;
}

}  // namespace cupel::app
