// SPDX-License-Identifier: Apache-2.0
#include "report/run/run.h"

#include <algorithm>

#include "base/hash.h"
#include "report/loose_json.h"
#include "report/run/candidates.h"
#include "report/run/generations.h"
#include "report/run/spending.h"
#include "report/run/stages.h"

namespace cupel::report {
namespace {

constexpr size_t kMaxConfigText = 500;

/// Replaces long texts of the configuration by their hash. The starting kernel is also a candidate.
Json ConfigOf(const archive::RunInfo& info) {
  Json config = ObjectFrom(info.config);
  for (auto& [key, value] : config.items()) {
    if (!value.is_string()) continue;
    const std::string& text = value.get_ref<const std::string&>();
    if (key == "start" || text.size() > kMaxConfigText) value = "sha256 " + Sha256Hex(text);
  }
  return config;
}

/// The time of the last write.
int64_t LastMs(const Run& run, const std::vector<archive::Exchange>& exchanges,
               const std::vector<archive::Event>& events) {
  int64_t last = std::max(run.info.created_ms, run.info.updated_ms);
  for (const archive::Exchange& exchange : exchanges) last = std::max(last, exchange.created_ms);
  if (!events.empty()) last = std::max(last, events.back().created_ms);
  for (const RunCandidate& candidate : run.candidates) {
    last = std::max(last, candidate.judged_ms.value_or(0));
  }
  return last;
}

void ReadReferences(const std::vector<archive::Event>& events, Run& run) {
  for (const archive::Event& event : events) {
    if (event.kind != "references") continue;
    const Json detail = ObjectFrom(event.detail);
    for (const char* key : {"floor_us", "eager_us", "compile_us"}) {
      const auto us = NumberAt(detail, key);
      if (us && *us > 0) run.references[key] = *us;
    }
    const auto named = detail.find("named_us");
    if (named == detail.end() || !named->is_object()) continue;
    for (const auto& [name, value] : named->items()) {
      const auto us = NumberAt(*named, name.c_str());
      if (us && *us > 0) run.named_us[name] = *us;
    }
  }
}

}  // namespace

const RunCandidate* Run::Find(int64_t id) const {
  const auto it = std::lower_bound(
      candidates.begin(), candidates.end(), id,
      [](const RunCandidate& candidate, int64_t wanted) { return candidate.id < wanted; });
  return it != candidates.end() && it->id == id ? &*it : nullptr;
}

const RunCandidate* Run::CandidateOf(const archive::Exchange& exchange) const {
  if (exchange.candidate) return Find(*exchange.candidate);
  const auto asked = asked_about.find(exchange.hash);
  return asked == asked_about.end() ? nullptr : Find(asked->second);
}

std::optional<double> Run::Start() const {
  for (const int64_t id : lineage) {
    const RunCandidate* step = Find(id);
    if (step != nullptr && step->objective) return step->objective;
  }
  return std::nullopt;
}

std::optional<double> Run::Gain() const {
  const RunCandidate* winner = best ? Find(*best) : nullptr;
  const auto start = Start();
  if (winner == nullptr || !winner->objective || !start || !(*winner->objective > 0)) {
    return std::nullopt;
  }
  return *start / *winner->objective;
}

Result<Run> ReadRun(const archive::Archive& archive) {
  Run run;
  TRY_ASSIGN(run.info, archive.Run());
  TRY_ASSIGN(run.counts, archive.Count());
  run.config = ConfigOf(run.info);
  TRY(ReadCandidates(archive, run));
  TRY_ASSIGN(const auto events, archive.Events());
  TRY_ASSIGN(const auto exchanges, archive.Exchanges());
  TRY_ASSIGN(const auto costs, archive.CostsByKind());
  run.generations = GenerationsOf(run, events);
  run.questions = QuestionsOf(exchanges, run);
  run.models = ModelsOf(run, events);
  run.hints = HintsOf(run, events);
  run.unusable = UnusableOf(events);
  run.cascade = CascadeOf(run.candidates);
  for (const archive::Cost& cost : costs) {
    // The cost of models is reported with the questions, if there are any.
    if (cost.kind != "llm" || exchanges.empty()) run.other_costs.push_back(cost);
  }
  ReadReferences(events, run);
  run.spent = SpentUntil(LastMs(run, exchanges, events), run, exchanges, events);
  const RunCandidate* winner = run.best ? run.Find(*run.best) : nullptr;
  if (winner != nullptr && winner->judged_ms) {
    run.to_best = SpentUntil(*winner->judged_ms, run, exchanges, events);
  }
  return run;
}

}  // namespace cupel::report
