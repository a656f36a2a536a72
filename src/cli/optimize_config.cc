// SPDX-License-Identifier: Apache-2.0
#include "cli/optimize_config.h"

#include <fmt/format.h>

#include <utility>

#include "app/search/run.h"
#include "review/calibration.h"

namespace cupel::cli {
namespace {

using Options = evolve::EvolutionOptions;

/// A part of the search that --without turns off, for ablations.
struct Ingredient {
  const char* name;
  void (*leave_out)(Options&);
};

constexpr Ingredient kIngredients[] = {
    {"bandit", [](Options& o) { o.bandit = false; }},
    {"crossover", [](Options& o) { o.crossover = false; }},
    {"edits", [](Options& o) { o.edits = false; }},
    {"examples", [](Options& o) { o.examples = 0; }},
    {"failures", [](Options& o) { o.failures = 0; }},
    {"feedback", [](Options& o) { o.feedback = o.summary = false; }},
    {"hints", [](Options& o) { o.hints = 0; }},
    {"migration", [](Options& o) { o.migrate_every = 0; }},
    {"new-hints", [](Options& o) { o.new_hint_every = 0; }},
    {"novelty", [](Options& o) { o.novelty = false; }},
    {"polish", [](Options& o) { o.polish = 0; }},
    {"reflection", [](Options& o) { o.reflections = 0; }},
    {"review", [](Options& o) { o.reading = evolve::Reading::kOff; }},
    {"summary", [](Options& o) { o.summary = false; }},
};

Json SearchJson(const app::SearchOptions& search) {
  Json json{{"models", search.models.specs},
            {"reviewers", search.reviewers},
            {"generations", search.generations},
            {"proposals", search.proposals},
            {"evaluations", search.evaluations},
            {"examples", search.examples},
            {"islands", search.islands},
            {"sampling", search.sampling},
            {"review", search.review},
            {"without", search.without},
            {"lint", search.lint}};
  json.update(BudgetJson(search.models));
  return json;
}

Status ReadSearch(const Json& json, app::SearchOptions& search) {
  TRY_ASSIGN(search.models.specs, app::Strings(json, "models"));
  TRY_ASSIGN(search.reviewers, app::Strings(json, "reviewers"));
  TRY_ASSIGN(search.without, app::Strings(json, "without"));
  TRY_ASSIGN(search.lint, JsonBool(json, "lint", app::kRunConfig));
  TRY(app::ReadInt(json, "generations", search.generations));
  TRY(app::ReadInt(json, "proposals", search.proposals));
  TRY(app::ReadInt(json, "evaluations", search.evaluations));
  TRY(app::ReadInt(json, "examples", search.examples));
  TRY(app::ReadInt(json, "islands", search.islands));
  TRY_ASSIGN(search.sampling, JsonString(json, "sampling", app::kRunConfig));
  TRY_ASSIGN(search.review, JsonString(json, "review", app::kRunConfig));
  return ReadBudget(json, search.models);
}

}  // namespace

std::string IngredientNames() {
  std::string names;
  for (const Ingredient& one : kIngredients) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
  }
  return names;
}

Result<evolve::EvolutionOptions> EvolutionOptionsOf(const OptimizeCommand& command) {
  const app::SearchOptions& search = command.search;
  Options options;
  options.generations = search.generations;
  options.proposals = search.proposals;
  options.evaluations = search.evaluations;
  options.examples = search.examples;
  options.islands = search.islands;
  options.sequential = search.sampling == "sequential";
  options.reading = search.review == "on"    ? evolve::Reading::kOn
                    : search.review == "off" ? evolve::Reading::kOff
                                             : evolve::Reading::kAuto;
  for (const std::string& name : search.without) {
    const Ingredient* found = nullptr;
    for (const Ingredient& one : kIngredients) {
      if (one.name == name) found = &one;
    }
    if (found == nullptr) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--without {}: unknown part of the search", name),
                  "choose from " + IngredientNames());
    }
    found->leave_out(options);
  }
  return options;
}

Json ToJson(const OptimizeCommand& command, const StoredRun& stored) {
  Json json = RunJson(command.common, command.compile, command.target);
  json["objective"] = command.objective;
  json["start"] = stored.start;
  if (command.search.models.specs.empty()) {
    json["candidates"] = command.candidates;
    json["batch"] = command.batch;
  } else {
    json["search"] = SearchJson(command.search);
    json["operation"] = stored.operation;
    json["reviewing"] = review::ToJson(stored.review);
  }
  return json;
}

Result<StoredRun> FromJson(const Json& json, OptimizeCommand& command) {
  TRY(ReadRun(json, command.common, command.compile, command.target));
  if (json.contains("objective")) {  // runs of cupel 0.1.0 lack it
    TRY_ASSIGN(command.objective, JsonString(json, "objective", app::kRunConfig));
  }
  StoredRun stored;
  TRY_ASSIGN(stored.start, JsonString(json, "start", app::kRunConfig));
  if (json.contains("search")) {
    TRY_ASSIGN(const Json* search, JsonObject(json, "search", app::kRunConfig));
    TRY(ReadSearch(*search, command.search));
    TRY_ASSIGN(stored.operation, JsonString(json, "operation", app::kRunConfig));
    if (json.contains("reviewing")) {
      TRY_ASSIGN(const Json* reviewing, JsonObject(json, "reviewing", app::kRunConfig));
      TRY_ASSIGN(stored.review, review::OptionsFromJson(*reviewing, app::kRunConfig));
    } else {
      stored.review.threshold = 0.5;  // for runs that do not store it
    }
  } else {
    TRY(app::ReadInt(json, "candidates", command.candidates));
    TRY(app::ReadInt(json, "batch", command.batch));
  }
  return stored;
}

}  // namespace cupel::cli
