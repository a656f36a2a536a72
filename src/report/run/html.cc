// SPDX-License-Identifier: Apache-2.0
#include "report/run/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/loose_json.h"
#include "report/page/page.h"
#include "report/page/page_parts.h"
#include "report/run/document.h"

namespace cupel::report {
namespace {

/// The texts of a page. Each is stored once, since prompts share most of their texts.
class TextPool {
 public:
  explicit TextPool(const RunPageLimits& limits)
      : text_bytes_(limits.text_bytes), left_(limits.all_bytes) {}

  /// The text's number, or null if there is no space left.
  Json Add(const std::string& text) {
    std::string shown = Bounded(text, text_bytes_);
    const auto known = numbers_.find(shown);
    if (known != numbers_.end()) return known->second;
    if (shown.size() > left_) {
      ++left_out_;
      return {};
    }
    left_ -= shown.size();
    texts_.push_back(shown);
    return numbers_.emplace(std::move(shown), texts_.size() - 1).first->second;
  }

  const Json& texts() const { return texts_; }
  int64_t left_out() const { return left_out_; }

 private:
  const size_t text_bytes_;
  size_t left_;
  int64_t left_out_ = 0;
  Json texts_ = Json::array();
  std::unordered_map<std::string, size_t> numbers_;
};

/// The priority of a candidate; 0 comes first. The order: the best's lineage, former bests,
/// accepted candidates, others.
int Rank(const Run& run, const RunCandidate& candidate) {
  if (std::find(run.lineage.begin(), run.lineage.end(), candidate.id) != run.lineage.end()) {
    return 0;
  }
  return candidate.new_best ? 1 : candidate.accepted() ? 2 : 3;
}

/// The ids to show.
std::set<int64_t> Chosen(const Run& run, size_t most) {
  std::vector<const RunCandidate*> order;
  order.reserve(run.candidates.size());
  for (const RunCandidate& candidate : run.candidates) order.push_back(&candidate);
  std::stable_sort(order.begin(), order.end(),
                   [&run](const RunCandidate* a, const RunCandidate* b) {
                     return Rank(run, *a) < Rank(run, *b);
                   });
  if (order.size() > most) order.resize(most);
  std::set<int64_t> ids;
  for (const RunCandidate* candidate : order) ids.insert(candidate->id);
  return ids;
}

/// The shown candidates of the document, with their thoughts and sources.
Result<Json> CandidatesJson(const Run& run, const Json& documented, const std::set<int64_t>& ids,
                            const archive::Archive& archive, TextPool& pool) {
  Json shown = Json::array();
  for (size_t i = 0; i < run.candidates.size(); ++i) {
    const RunCandidate& candidate = run.candidates[i];
    if (ids.count(candidate.id) == 0) continue;
    TRY_ASSIGN(const std::string source, archive.Source(candidate.id));
    Json json = documented[i];
    json["source"] = pool.Add(source);
    if (!candidate.thought.empty()) json["thought"] = pool.Add(candidate.thought);
    for (const RunStage& stage : candidate.stages) {
      if (!stage.feedback.empty()) json["feedback"] = pool.Add(stage.feedback);
    }
    shown.push_back(std::move(json));
  }
  return shown;
}

Json ExchangeJson(const archive::Exchange& exchange, const RunCandidate* candidate,
                  TextPool& pool) {
  Json json{{"role", Bounded(exchange.role, 200)},
            {"model", Bounded(exchange.model, 200)},
            {"hash", Bounded(exchange.hash, 200)},
            {"attempt", exchange.attempt}};
  if (candidate != nullptr) json["candidate"] = candidate->id;
  const Json request = ObjectFrom(exchange.request);
  Json& asked = json["asked"] = Json::array();
  const auto say = [&](const std::string& who, const std::string& text) {
    if (!text.empty()) asked.push_back({{"who", who}, {"text", pool.Add(text)}});
  };
  say("system", TextAt(request, "system", archive::kMaxBlobBytes));
  for (const Json& message : ListAt(request, "messages")) {
    say(TextAt(message, "role", 200), TextAt(message, "text", archive::kMaxBlobBytes));
  }
  if (!exchange.end) return json;
  const Json answer = ObjectFrom(exchange.end->answer);
  if (const std::string text = TextAt(answer, "text", archive::kMaxBlobBytes); !text.empty()) {
    json["answer"] = pool.Add(text);
  }
  if (const std::string text = TextAt(answer, "reasoning", archive::kMaxBlobBytes); !text.empty()) {
    json["reasoning"] = pool.Add(text);
  }
  json["error"] = Bounded(exchange.end->error);
  json["input_tokens"] = exchange.end->input_tokens;
  json["output_tokens"] = exchange.end->output_tokens;
  json["usd"] = 1e-9 * static_cast<double>(exchange.end->charged_nano_usd);
  json["seconds"] = exchange.end->seconds;
  return json;
}

/// The exchanges in the order in which they were asked. If there are too many, those of the better
/// candidates have priority.
Json ExchangesJson(const Run& run, const std::vector<archive::Exchange>& exchanges, size_t most,
                   TextPool& pool) {
  std::vector<std::pair<int, size_t>> order;
  for (size_t i = 0; i < exchanges.size(); ++i) {
    const RunCandidate* candidate = run.CandidateOf(exchanges[i]);
    order.emplace_back(candidate != nullptr ? Rank(run, *candidate) : 4, i);
  }
  std::sort(order.begin(), order.end());
  if (order.size() > most) order.resize(most);
  std::map<size_t, Json> shown;
  for (const auto& [rank, i] : order) {
    shown[i] = ExchangeJson(exchanges[i], run.CandidateOf(exchanges[i]), pool);
  }
  Json list = Json::array();
  for (auto& [i, json] : shown) list.push_back(std::move(json));
  return list;
}

}  // namespace

Result<std::string> RunHtml(const Run& run, const archive::Archive& archive,
                            const RunPageLimits& limits) {
  TRY_ASSIGN(const auto exchanges, archive.Exchanges());
  TextPool pool(limits);
  Json data = RunDocument(run);
  data["seed"] = std::to_string(run.info.seed);  // numbers in JavaScript only have 53 bits
  data["unit"] = run.kind.unit;
  data["of_one_call"] = run.kind.of_one_call;
  const std::set<int64_t> ids = Chosen(run, limits.candidates);
  TRY_ASSIGN(data["candidates"], CandidatesJson(run, data["candidates"], ids, archive, pool));
  data["exchanges"] = ExchangesJson(run, exchanges, limits.exchanges, pool);
  data["texts"] = pool.texts();
  data["left_out"] = {{"candidates", run.candidates.size() - ids.size()},
                      {"exchanges", exchanges.size() - data["exchanges"].size()},
                      {"texts", pool.left_out()}};
  return SelfContainedPage(
      "Run report", fmt::format("{}{}", CommonCss(), RunCss()), RunBodyHtml(), data,
      fmt::format("{}{}{}{}{}{}{}{}{}{}", DomJs(), AxesJs(), ListingJs(), RunBaseJs(), RunDiffJs(),
                  RunProgressJs(), RunTreeJs(), RunCandidateJs(), RunTablesJs(), RunMainJs()));
}

}  // namespace cupel::report
