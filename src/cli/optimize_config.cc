// SPDX-License-Identifier: Apache-2.0
#include "cli/optimize_config.h"

#include <fmt/format.h>

#include <utility>

namespace cupel::cli {
namespace {

constexpr const char* kWhat = "configuration of the run";

using Options = evolve::EvolutionOptions;

/// What can be left out of a search, to see what it is worth.
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

Json SearchJson(const SearchOptions& search) {
  return Json{
      {"models", search.models.specs},
      {"reviewers", search.reviewers},
      {"generations", search.generations},
      {"proposals", search.proposals},
      {"evaluations", search.evaluations},
      {"examples", search.examples},
      {"islands", search.islands},
      {"sampling", search.sampling},
      {"review", search.review},
      {"without", search.without},
      {"budget_usd", search.models.budget_usd ? Json(*search.models.budget_usd) : Json()},
      {"budget_tokens", search.models.budget_tokens ? Json(*search.models.budget_tokens) : Json()}};
}

Result<std::vector<std::string>> Strings(const Json& json, const char* key) {
  TRY_ASSIGN(const Json* array, JsonArray(json, key, kWhat));
  std::vector<std::string> strings;
  for (const Json& item : *array) {
    if (!item.is_string()) {
      return Fail(ErrorCode::kIo, fmt::format("{}: {} holds what is no text", kWhat, key));
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

Status ReadInt(const Json& json, const char* key, int& into) {
  TRY_ASSIGN(const int64_t value, JsonInt(json, key, kWhat));
  into = static_cast<int>(value);
  return {};
}

Status ReadSearch(const Json& json, SearchOptions& search) {
  TRY_ASSIGN(search.models.specs, Strings(json, "models"));
  TRY_ASSIGN(search.reviewers, Strings(json, "reviewers"));
  TRY_ASSIGN(search.without, Strings(json, "without"));
  TRY(ReadInt(json, "generations", search.generations));
  TRY(ReadInt(json, "proposals", search.proposals));
  TRY(ReadInt(json, "evaluations", search.evaluations));
  TRY(ReadInt(json, "examples", search.examples));
  TRY(ReadInt(json, "islands", search.islands));
  TRY_ASSIGN(search.sampling, JsonString(json, "sampling", kWhat));
  TRY_ASSIGN(search.review, JsonString(json, "review", kWhat));
  ModelOptions& models = search.models;
  if (models.budget_usd || models.budget_tokens) return {};  // a new budget
  if (json.contains("budget_usd") && !json["budget_usd"].is_null()) {
    TRY_ASSIGN(models.budget_usd, JsonNumber(json, "budget_usd", kWhat));
  }
  if (json.contains("budget_tokens") && !json["budget_tokens"].is_null()) {
    TRY_ASSIGN(models.budget_tokens, JsonInt(json, "budget_tokens", kWhat));
  }
  return {};
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
  const SearchOptions& search = command.search;
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
                  fmt::format("--without {}: there is no such ingredient", name),
                  "choose of " + IngredientNames());
    }
    found->leave_out(options);
  }
  return options;
}

Json ToJson(const OptimizeCommand& command, const StoredRun& stored) {
  Json roots = Json::array();
  for (const auto& root : command.compile.include_roots) roots.push_back(root.string());
  Json json{{"task", command.target.task},
            {"backward", command.target.backward},
            {"settings", command.target.settings},
            {"trials", command.target.trials},
            {"full_size", command.target.full_size},
            {"objective", command.objective},
            {"device", command.common.device},
            {"model", command.common.model},
            {"user_seed", command.common.seed.has_value()},
            {"arch", command.compile.arch},
            {"flags", Json(command.compile.flags)},
            {"include_roots", roots},
            {"start", stored.start}};
  if (command.search.models.specs.empty()) {
    json["candidates"] = command.candidates;
    json["batch"] = command.batch;
  } else {
    json["search"] = SearchJson(command.search);
    json["operation"] = stored.operation;
  }
  return json;
}

Result<StoredRun> FromJson(const Json& json, OptimizeCommand& command) {
  TRY_ASSIGN(command.target.task, JsonString(json, "task", kWhat));
  TRY_ASSIGN(command.target.backward, JsonBool(json, "backward", kWhat));
  TRY_ASSIGN(command.target.settings, JsonString(json, "settings", kWhat));
  TRY(ReadInt(json, "trials", command.target.trials));
  TRY_ASSIGN(command.common.device, JsonString(json, "device", kWhat));
  TRY_ASSIGN(command.common.model, JsonString(json, "model", kWhat));
  TRY_ASSIGN(command.compile.arch, JsonString(json, "arch", kWhat));
  TRY_ASSIGN(command.compile.flags, Strings(json, "flags"));
  TRY_ASSIGN(const auto roots, Strings(json, "include_roots"));
  command.compile.include_roots.assign(roots.begin(), roots.end());
  if (json.contains("objective")) {  // runs of cupel 0.1.0 lack it
    TRY_ASSIGN(command.objective, JsonString(json, "objective", kWhat));
  }
  if (json.contains("full_size")) {
    TRY_ASSIGN(command.target.full_size, JsonBool(json, "full_size", kWhat));
  }
  StoredRun stored;
  TRY_ASSIGN(stored.start, JsonString(json, "start", kWhat));
  if (json.contains("search")) {
    TRY_ASSIGN(const Json* search, JsonObject(json, "search", kWhat));
    TRY(ReadSearch(*search, command.search));
    TRY_ASSIGN(stored.operation, JsonString(json, "operation", kWhat));
  } else {
    TRY(ReadInt(json, "candidates", command.candidates));
    TRY(ReadInt(json, "batch", command.batch));
  }
  return stored;
}

}  // namespace cupel::cli
