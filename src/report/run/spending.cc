// SPDX-License-Identifier: Apache-2.0
#include "report/run/spending.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "report/loose_json.h"

namespace cupel::report {
namespace {

constexpr double kNano = 1e-9;

int64_t EndMs(const archive::Exchange& exchange) {
  const double seconds = exchange.end ? std::clamp(exchange.end->seconds, 0.0, 1e9) : 0;
  return exchange.created_ms + static_cast<int64_t>(1000 * seconds);
}

/// About, for text and code in English.
constexpr int64_t kBytesOfAToken = 4;

int64_t BytesOf(const Json& request) {
  size_t bytes = TextAt(request, "system", archive::kMaxBlobBytes).size();
  for (const Json& message : ListAt(request, "messages")) {
    bytes += TextAt(message, "text", archive::kMaxBlobBytes).size();
  }
  return static_cast<int64_t>(bytes);
}

/// For models that do not count: people and programs with a mailbox, commands.
void EstimateTokens(const archive::Exchange& exchange, RunQuestions& row) {
  const Json request = ObjectFrom(exchange.request), answer = ObjectFrom(exchange.end->answer);
  const auto output = static_cast<int64_t>(TextAt(answer, "text", archive::kMaxBlobBytes).size());
  row.input_tokens += BytesOf(request) / kBytesOfAToken;
  row.output_tokens += output / kBytesOfAToken;
  row.tokens_are_estimates = true;
}

void Count(const archive::Exchange& exchange, RunQuestions& row) {
  ++row.asked;
  if (!exchange.end) {
    row.charged_tokens += exchange.worst_tokens;
    row.usd += kNano * static_cast<double>(exchange.worst_nano_usd);
    return;
  }
  ++(exchange.end->error.empty() ? row.answered : row.failed);
  row.input_tokens += exchange.end->input_tokens;
  row.output_tokens += exchange.end->output_tokens;
  const bool counted = exchange.end->input_tokens > 0 || exchange.end->charged_tokens > 0;
  if (!counted && exchange.end->error.empty()) EstimateTokens(exchange, row);
  row.charged_tokens += exchange.end->charged_tokens;
  row.usd += kNano * static_cast<double>(exchange.end->charged_nano_usd);
  row.seconds += exchange.end->seconds;
}

/// Seconds until `until_ms` in which a process worked on the run, from the times of its records.
double DrivenSeconds(int64_t until_ms, const Run& run,
                     const std::vector<archive::Exchange>& exchanges,
                     const std::vector<archive::Event>& events) {
  std::vector<int64_t> signs{run.info.created_ms};
  for (const archive::Exchange& exchange : exchanges) {
    signs.push_back(exchange.created_ms);
    signs.push_back(EndMs(exchange));
  }
  for (const RunCandidate& candidate : run.candidates) {
    if (candidate.judged_ms) signs.push_back(*candidate.judged_ms);
  }
  std::vector<int64_t> resumed;
  for (const archive::Event& event : events) {
    (event.kind == "resumed" ? resumed : signs).push_back(event.created_ms);
  }
  std::sort(signs.begin(), signs.end());
  int64_t driven = until_ms - run.info.created_ms;
  for (const int64_t again : resumed) {
    if (again > until_ms) continue;
    // The last record before it. A record of the same millisecond was written after resuming.
    const auto after = std::lower_bound(signs.begin(), signs.end(), again);
    if (after != signs.begin()) driven -= again - *std::prev(after);
  }
  return 1e-3 * static_cast<double>(std::max<int64_t>(0, driven));
}

}  // namespace

std::vector<RunQuestions> QuestionsOf(const std::vector<archive::Exchange>& exchanges,
                                      const Run& run) {
  std::vector<RunQuestions> rows;
  std::map<std::pair<std::string, std::string>, size_t> places;
  std::set<std::pair<size_t, int64_t>> counted;
  for (const archive::Exchange& exchange : exchanges) {
    const auto [place, fresh] = places.try_emplace({exchange.role, exchange.model}, rows.size());
    if (fresh) {
      rows.emplace_back();
      rows.back().role = Bounded(exchange.role, 200);
      rows.back().model = Bounded(exchange.model, 200);
    }
    RunQuestions& row = rows[place->second];
    Count(exchange, row);
    const RunCandidate* candidate = run.CandidateOf(exchange);
    // Retries and further turns belong to the same candidate, which is counted once.
    if (candidate == nullptr || !counted.insert({place->second, candidate->id}).second) continue;
    ++row.candidates;
    row.accepted += candidate->accepted();
  }
  return rows;
}

RunSpent SpentUntil(int64_t until_ms, const Run& run,
                    const std::vector<archive::Exchange>& exchanges,
                    const std::vector<archive::Event>& events) {
  RunSpent spent;
  RunQuestions sum;
  for (const archive::Exchange& exchange : exchanges) {
    if (exchange.created_ms <= until_ms) Count(exchange, sum);
  }
  spent.questions = sum.asked;
  spent.tokens = sum.charged_tokens;
  spent.input_tokens = sum.input_tokens;
  spent.output_tokens = sum.output_tokens;
  spent.tokens_are_estimates = sum.tokens_are_estimates;
  spent.usd = sum.usd;
  spent.judged = std::count_if(run.candidates.begin(), run.candidates.end(),
                               [until_ms](const RunCandidate& candidate) {
                                 return candidate.judged_ms && *candidate.judged_ms <= until_ms;
                               });
  spent.seconds = DrivenSeconds(until_ms, run, exchanges, events);
  return spent;
}

}  // namespace cupel::report
