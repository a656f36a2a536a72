// Tested by tests/e2e/test_evolve.py and, on a GPU, by tests/e2e/test_gpu_engines.py.
// SPDX-License-Identifier: Apache-2.0
#include "app/search/references.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "app/ceilings.h"
#include "assay/bench.h"
#include "assay/roofline.h"
#include "evolve/evaluator.h"
#include "stats/robust.h"

namespace cupel::app {
namespace {

constexpr const char* kEvent = "references";
constexpr const char* kBest = "best kernel";  // no baseline has this name
constexpr uint64_t kSeed = 0;                 // of the cases; only their sizes matter

/// The geometric mean over `count` settings; nullopt if there is none, or one has no value.
std::optional<double> MeanOver(const std::vector<double>& values, size_t count) {
  if (values.empty() || values.size() != count) return std::nullopt;
  return stats::GeometricMean(values);
}

Json ToJson(const References& references) {
  Json json{{"floor_us", references.floor_us}, {"settings", references.settings}};
  if (references.eager_us) json["eager_us"] = *references.eager_us;
  if (references.compile_us) json["compile_us"] = *references.compile_us;
  if (!references.named_us.empty()) json["named_us"] = references.named_us;
  return json;
}

constexpr const char* kWhat = "the run's references";

/// The latest event of a run's references.
Result<std::optional<Json>> Stored(const OpenRun& run) {
  TRY_ASSIGN(const auto events, run.archive.Events());
  std::optional<Json> latest;
  for (const archive::Event& event : events) {
    if (event.kind != kEvent) continue;
    TRY_ASSIGN(latest, ParseJson(event.detail, kWhat));
  }
  return latest;
}

Result<References> FromJson(const Json& json) {
  References references;
  TRY_ASSIGN(references.floor_us, JsonNumber(json, "floor_us", kWhat));
  if (json.contains("settings")) {  // older runs lack it
    TRY_ASSIGN(const int64_t settings, JsonInt(json, "settings", kWhat));
    references.settings = static_cast<int>(std::clamp<int64_t>(settings, 1, 1'000'000));
  }
  for (const auto& [name, member] : {std::pair("eager_us", &references.eager_us),
                                     std::pair("compile_us", &references.compile_us)}) {
    if (!json.contains(name)) continue;
    TRY_ASSIGN(*member, JsonNumber(json, name, kWhat));
  }
  if (!json.contains("named_us")) return references;
  TRY_ASSIGN(const Json* named, JsonObject(json, "named_us", kWhat));
  for (const auto& [name, us] : named->items()) {
    TRY_ASSIGN(references.named_us[name], JsonNumber(*named, name.c_str(), kWhat));
  }
  return references;
}

/// The settings that a search compares; empty: all failed.
std::vector<const task::Setting*> Compared(const task::Task& task, task::Direction direction,
                                           const Target& target) {
  assay::Question question;
  question.task = &task;
  question.direction = direction;
  question.kinds = evolve::ComparedKinds(KindsOf(target));
  return assay::Chosen(question);
}

}  // namespace

Result<References> ReferencesOf(OpenRun& run, Session& session, const task::Task& task,
                                task::Direction direction, const Target& target) {
  TRY_ASSIGN(const auto known, Stored(run));
  if (known) return FromJson(*known);
  const device::Description device = session.engine().Device();
  const std::vector<const task::Setting*> settings = Compared(task, direction, target);
  std::vector<double> floors;
  for (const task::Setting* setting : settings) {
    TRY_ASSIGN(const auto outcomes, session.oracle().Cases(task, direction, *setting, 1, kSeed));
    const auto* drawn = outcomes.empty() ? nullptr : std::get_if<task::Case>(&outcomes.front());
    if (drawn == nullptr || !(device.dram_bytes > 0)) continue;
    const double bytes = assay::BytesToRead(*drawn) + assay::BytesToWrite(*drawn);
    floors.push_back(bytes / device.dram_bytes * 1e6 + device.launch_latency_us);
  }
  References references;
  references.floor_us = MeanOver(floors, settings.size()).value_or(0);
  references.settings = std::max(1, static_cast<int>(settings.size()));
  TRY(run.archive.AddEvent(kEvent, DumpJson(ToJson(references))));
  return references;
}

Status TimePyTorch(OpenRun& run, Session& session, const task::Task& task,
                   task::Direction direction, const Target& target,
                   const std::filesystem::path& best, int64_t candidate, Events& events) {
  TRY_ASSIGN(const auto known, Stored(run));
  if (known && JsonInt(*known, "candidate", kWhat).value_or(0) == candidate) return {};
  events.Show({"timing PyTorch"});
  auto baselines = session.StartBaselines();
  if (!baselines) {
    events.Note(fmt::format("PyTorch is not timed: {}", baselines.error().message));
    return {};
  }
  assay::Question question;
  question.task = &task;
  question.direction = direction;
  question.operators = OperatorsOf(target);
  assay::BenchOptions options;
  options.baselines = oracle::UsualBaselines(task);
  options.torch = baselines->get();
  TRY_ASSIGN(options.ceilings, CeilingsOf(session.engine()));
  TRY_ASSIGN(const assay::Candidate kernel, session.assay().Build(best));
  const assay::KernelToTime kernels[] = {{kBest, &kernel}};
  const std::vector<const task::Setting*> settings = Compared(task, direction, target);
  std::map<std::string, std::vector<double>> measured;  // by name
  for (const task::Setting* setting : settings) {
    TRY_ASSIGN(const records::SettingTimes times,
               assay::TimeSetting(session.parts(), question, *setting, kernels, options));
    for (const records::Timing& timing : times.timings) {
      if (timing.is_timed()) measured[timing.name].push_back(timing.median.estimate);
    }
  }
  const auto mean_of = [&](const std::string& name) {
    return MeanOver(measured[name], settings.size());
  };
  References references;
  TRY_ASSIGN(references, ReferencesOf(run, session, task, direction, target));
  references.eager_us = mean_of(oracle::Name(oracle::BaselineKind::kEager));
  references.compile_us = mean_of(oracle::Name(oracle::BaselineKind::kCompile));
  for (const task::NamedBaseline& named : task.named_baselines) {
    if (const auto us = mean_of(named.name)) references.named_us[named.name] = *us;
  }
  Json json = ToJson(references);
  json["candidate"] = candidate;
  if (const auto us = mean_of(kBest)) json["best_us"] = *us;
  return run.archive.AddEvent(kEvent, DumpJson(json));
}

}  // namespace cupel::app
