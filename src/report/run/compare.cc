// SPDX-License-Identifier: Apache-2.0
#include "report/run/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/loose_json.h"
#include "stats/robust.h"

namespace cupel::report {
namespace {

constexpr size_t kMostValueBytes = 200;
constexpr int kDeepest = 16;

using Settings = std::map<std::string, std::string>;

/// False for members of a configuration that are not compared: seeds, and those listed as "run.…".
bool IsCompared(const std::string& path) {
  return path != "user_seed" && path != "seed" && path != "task" && path != "backward";
}

/// Names nested members "a.b". Lists are not flattened.
void Flatten(const Json& config, const std::string& prefix, int depth, Settings& settings) {
  for (const auto& [key, value] : config.items()) {
    const std::string path = Bounded(prefix + key, kMostValueBytes);
    if (value.is_object() && depth < kDeepest) {
      Flatten(value, path + ".", depth + 1, settings);
    } else if (IsCompared(path)) {
      settings[path] = value.is_string() ? value.get<std::string>() : DumpJson(value);
    }
  }
}

Settings SettingsOf(const Run& run) {
  Settings settings;
  Flatten(run.config, "", 0, settings);
  settings["run.task"] = run.info.task;
  settings["run.direction"] = run.info.direction;
  settings["run.task_sha256"] = run.info.task_hash;
  settings["run.cupel"] = run.info.cupel_version;
  // Without a verdict, the run's objective is unknown.
  const bool judged = std::any_of(run.candidates.begin(), run.candidates.end(),
                                  [](const RunCandidate& candidate) { return candidate.judged; });
  if (judged) settings["run.objective"] = run.kind.name;
  return settings;
}

ComparedRun Describe(const Run& run, const std::string& name) {
  ComparedRun compared;
  compared.name = name;
  compared.status = Name(run.info.status);
  compared.unit = run.kind.unit;
  compared.seed = run.info.seed;
  compared.candidates = run.counts.total();
  compared.gain = run.Gain();
  compared.spent = run.spent;
  compared.to_best = run.to_best;
  const double start = run.Start().value_or(0);
  const RunCandidate* winner = run.best ? run.Find(*run.best) : nullptr;
  if (winner != nullptr) {
    compared.best = winner->objective;
    compared.best_generation = winner->generation;
  }
  const auto over_best = [&](const char* reference) -> std::optional<double> {
    const auto found = run.references.find(reference);
    const bool known =
        run.kind.is_time() && found != run.references.end() && compared.best && *compared.best > 0;
    return known ? std::optional(found->second / *compared.best) : std::nullopt;
  };
  compared.over_eager = over_best("eager_us");
  compared.over_compile = over_best("compile_us");
  compared.floor_share = over_best("floor_us");
  std::optional<double> best;
  for (const RunCandidate& candidate : run.candidates) {
    compared.judged += candidate.judged;
    compared.accepted += candidate.accepted();
    if (!candidate.objective || (best && *candidate.objective >= *best)) continue;
    best = candidate.objective;
    if (*best > 0 && start > 0) compared.by_judged.emplace_back(compared.judged, start / *best);
  }
  if (!compared.by_judged.empty())
    compared.by_judged.emplace_back(compared.judged, compared.by_judged.back().second);
  for (const RunGeneration& generation : run.generations) {
    if (generation.best && *generation.best > 0 && start > 0) {
      compared.by_generation.emplace_back(generation.generation, start / *generation.best);
    }
  }
  return compared;
}

std::string Label(size_t place) {
  std::string label(1, static_cast<char>('A' + place % 26));
  return place < 26 ? label : label + std::to_string(place / 26);
}

/// The paths at which the values differ.
std::vector<std::string> DifferencesOf(const std::vector<Settings>& all) {
  std::set<std::string> paths;
  for (const Settings& settings : all) {
    for (const auto& [path, value] : settings) paths.insert(path);
  }
  const auto value_at = [](const Settings& settings, const std::string& path) {
    const auto it = settings.find(path);
    return it == settings.end() ? std::optional<std::string>() : it->second;
  };
  std::vector<std::string> differences;
  for (const std::string& path : paths) {
    const auto first = value_at(all.front(), path);
    if (std::any_of(all.begin(), all.end(),
                    [&](const Settings& s) { return value_at(s, path) != first; })) {
      differences.push_back(path);
    }
  }
  return differences;
}

void AddNotes(const std::vector<Run>& runs, RunComparison& comparison) {
  std::set<std::string_view> kinds;
  std::set<std::string> subjects;
  for (const Run& run : runs) {
    if (run.best) kinds.insert(run.kind.name);
    subjects.insert(run.info.task + " " + run.info.direction);
  }
  if (subjects.size() == 1) {
    comparison.subject = *subjects.begin();
  } else {
    comparison.notes.push_back("The runs are of different tasks: compare gains, not values.");
  }
  comparison.best_title = "best";
  if (kinds.size() == 1) {
    const ObjectiveKind& kind = ObjectiveKindNamed(*kinds.begin());
    if (!kind.unit.empty()) comparison.best_title += fmt::format(",{}", kind.unit);
    if (kind.estimate()) comparison.best_title += " (estimate)";
  }
  if (kinds.size() > 1) {
    comparison.notes.push_back(
        "The runs minimise different objectives (estimates are not measurements): do not compare "
        "their values.");
  } else if (kinds.count("estimated_us") > 0) {
    comparison.notes.push_back("All times are the emulator's estimates, not measurements.");
  }
  if (std::ranges::any_of(runs, [](const Run& run) { return run.spent.tokens_are_estimates; })) {
    comparison.notes.emplace_back(
        "Tokens of models that do not count them are a quarter of the bytes.");
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].info.status == archive::RunStatus::kFinished) continue;
    comparison.notes.push_back(fmt::format("{} is not finished ({}).", comparison.runs[i].name,
                                           comparison.runs[i].status));
  }
}

}  // namespace

std::optional<double> ComparedRun::accepted_share() const {
  if (judged == 0) return std::nullopt;
  return static_cast<double>(accepted) / static_cast<double>(judged);
}

std::optional<Spread> RunComparison::SpreadOf(
    const Configuration& configuration,
    const std::function<std::optional<double>(const ComparedRun&)>& value) const {
  std::vector<double> values;
  for (const size_t i : configuration.runs) {
    if (const auto one = value(runs[i])) values.push_back(*one);
  }
  if (values.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return Spread{stats::Median(values), *low, *high, values.size()};
}

RunComparison CompareRuns(const std::vector<Run>& runs, const std::vector<std::string>& names) {
  CHECK(!runs.empty() && runs.size() == names.size());
  RunComparison comparison;
  std::vector<Settings> all;
  for (size_t i = 0; i < runs.size(); ++i) {
    comparison.runs.push_back(Describe(runs[i], names[i]));
    all.push_back(SettingsOf(runs[i]));
  }
  comparison.differences = DifferencesOf(all);
  std::map<Settings, size_t> places;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [place, fresh] = places.try_emplace(all[i], comparison.configurations.size());
    if (fresh) {
      Configuration& configuration = comparison.configurations.emplace_back();
      configuration.label = Label(place->second);
      for (const std::string& path : comparison.differences) {
        const auto value = all[i].find(path);
        configuration.values.push_back(
            value == all[i].end() ? "" : Bounded(value->second, kMostValueBytes));
      }
    }
    comparison.configurations[place->second].runs.push_back(i);
  }
  AddNotes(runs, comparison);
  return comparison;
}

}  // namespace cupel::report
