// SPDX-License-Identifier: Apache-2.0
#include "app/search/optimize_config.h"

#include <fmt/format.h>

#include <utility>

#include "app/search/run.h"
#include "review/calibration.h"

namespace cupel::app {
namespace {

using Options = evolve::EvolutionOptions;

/// A part of the search that --without turns off, for ablations.
struct Ingredient {
  std::string_view name;
  void (*leave_out)(Options&);
};

/// Models were asked to check every proposal again, until failures took its place.
constexpr std::string_view kReflection = "reflection", kRepair = "repair";

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
    {kRepair, [](Options& o) { o.repairs = 0; }},
    {"review", [](Options& o) { o.reading = evolve::Reading::kOff; }},
    {"summary", [](Options& o) { o.summary = false; }},
};

Json SearchJson(const SearchOptions& search) {
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
            {"lint", search.lint},
            {"lessons", search.lessons}};
  json.update(BudgetJson(search.models));
  return json;
}

Status ReadSearch(const Json& json, SearchOptions& search) {
  TRY_ASSIGN(search.models.specs, Strings(json, "models"));
  TRY_ASSIGN(search.reviewers, Strings(json, "reviewers"));
  TRY_ASSIGN(search.without, Strings(json, "without"));
  TRY_ASSIGN(search.lint, JsonBool(json, "lint", kRunConfig));
  TRY(ReadInt(json, "generations", search.generations));
  TRY(ReadInt(json, "proposals", search.proposals));
  TRY(ReadInt(json, "evaluations", search.evaluations));
  TRY(ReadInt(json, "examples", search.examples));
  TRY(ReadInt(json, "islands", search.islands));
  TRY_ASSIGN(search.sampling, JsonString(json, "sampling", kRunConfig));
  TRY_ASSIGN(search.review, JsonString(json, "review", kRunConfig));
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

Result<evolve::EvolutionOptions> EvolutionOptionsOf(const OptimizeOptions& options) {
  const SearchOptions& search = options.search;
  Options evolution;
  evolution.generations = search.generations;
  evolution.proposals = search.proposals;
  evolution.evaluations = search.evaluations;
  evolution.examples = search.examples;
  evolution.islands = search.islands;
  evolution.sequential = search.sampling == "sequential";
  evolution.reading = search.review == "on"    ? evolve::Reading::kOn
                      : search.review == "off" ? evolve::Reading::kOff
                                               : evolve::Reading::kAuto;
  for (const std::string& name : search.without) {
    const Ingredient* found = nullptr;
    for (const Ingredient& one : kIngredients) {
      if (one.name == name || (name == kReflection && one.name == kRepair)) found = &one;
    }
    if (found == nullptr) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--without {}: unknown part of the search", name),
                  "choose from " + IngredientNames());
    }
    found->leave_out(evolution);
  }
  return evolution;
}

Json ToJson(const OptimizeOptions& options, const StoredRun& stored) {
  Json json = RunJson(options.common, options.compile, options.target);
  json["objective"] = options.objective;
  json["start"] = stored.start;
  json["form"] = Name(stored.form);
  json["stop_at"] = options.stop_at;
  if (options.search.models.specs.empty()) {
    json["candidates"] = options.candidates;
    json["batch"] = options.batch;
  } else {
    json["search"] = SearchJson(options.search);
    json["operation"] = stored.operation;
    json["fit"] = {{"backward", stored.fit.backward},         {"float32", stored.fit.has_float32},
                   {"16-bit", stored.fit.has_16bit},          {"products", stored.fit.has_products},
                   {"statistics", stored.fit.has_statistics}, {"wgmma", stored.fit.has_wgmma}};
    json["proven"] = evolve::ToJson(stored.proven);
    json["reviewing"] = review::ToJson(stored.review);
  }
  return json;
}

Result<StoredRun> FromJson(const Json& json, OptimizeOptions& options) {
  TRY(ReadRun(json, options.common, options.compile, options.target));
  if (json.contains("objective")) {  // runs of cupel 0.1.0 lack it
    TRY_ASSIGN(options.objective, JsonString(json, "objective", kRunConfig));
  }
  if (json.contains("stop_at")) {  // runs of cupel 0.1.0 lack it
    TRY_ASSIGN(options.stop_at, JsonNumber(json, "stop_at", kRunConfig));
  }
  StoredRun stored;
  TRY_ASSIGN(stored.start, JsonString(json, "start", kRunConfig));
  if (json.contains("form")) {  // runs of cupel 0.1.0 lack it
    TRY_ASSIGN(const std::string name, JsonString(json, "form", kRunConfig));
    const auto form = evolve::FormNamed(name);
    if (!form) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("{}: unknown form of candidates", kRunConfig),
                  "use the version of cupel that started the run");
    }
    stored.form = *form;
  }
  if (json.contains("search")) {
    TRY_ASSIGN(const Json* search, JsonObject(json, "search", kRunConfig));
    TRY(ReadSearch(*search, options.search));
    TRY_ASSIGN(stored.operation, JsonString(json, "operation", kRunConfig));
    if (json.contains("fit")) {  // runs of cupel 0.1.0 lack it
      TRY_ASSIGN(const Json* fit, JsonObject(json, "fit", kRunConfig));
      TRY_ASSIGN(stored.fit.backward, JsonBool(*fit, "backward", kRunConfig));
      TRY_ASSIGN(stored.fit.has_float32, JsonBool(*fit, "float32", kRunConfig));
      TRY_ASSIGN(stored.fit.has_16bit, JsonBool(*fit, "16-bit", kRunConfig));
      TRY_ASSIGN(stored.fit.has_products, JsonBool(*fit, "products", kRunConfig));
      TRY_ASSIGN(stored.fit.has_statistics, JsonBool(*fit, "statistics", kRunConfig));
      stored.fit.has_wgmma = JsonBool(*fit, "wgmma", kRunConfig).value_or(false);  // since 0.2
    }
    if (json.contains("proven")) {
      TRY_ASSIGN(stored.proven, evolve::ProvenIdeasFromJson(json["proven"]));
    }
    if (json.contains("reviewing")) {
      TRY_ASSIGN(const Json* reviewing, JsonObject(json, "reviewing", kRunConfig));
      TRY_ASSIGN(stored.review, review::OptionsFromJson(*reviewing, kRunConfig));
    } else {
      stored.review.threshold = 0.5;  // for runs that do not store it
    }
  } else {
    TRY(ReadInt(json, "candidates", options.candidates));
    TRY(ReadInt(json, "batch", options.batch));
  }
  return stored;
}

}  // namespace cupel::app
