// SPDX-License-Identifier: Apache-2.0
#include "llm/replay.h"

#include <fmt/format.h>

#include <map>

namespace cupel::llm {
namespace {

class Replay : public Provider {
 public:
  Replay(const std::vector<Exchange>& exchanges, std::string source) : source_(std::move(source)) {
    for (const Exchange& exchange : exchanges) {
      if (exchange.failure) continue;
      by_request_.emplace(exchange.hash, exchange.answer);
      by_prompt_.emplace(PromptHashOf(exchange.request), exchange.answer);
      if (exchange.request.sample == 0) continue;
      by_place_.emplace(PlaceOf(exchange.request, exchange.role), exchange.answer);
    }
  }
  bool Metered() const override { return false; }

  Reply Ask(const Request& request, const Call& call) override {
    const Answer* found = Find(by_request_, HashOf(request));
    if (found == nullptr) found = Find(by_prompt_, PromptHashOf(request));
    if (found == nullptr && request.sample != 0) {
      found = Find(by_place_, PlaceOf(request, call.role));
    }
    if (found == nullptr) return Failed(Missing(request));
    Reply reply;
    reply.answer = *found;
    reply.answer.usd = 0;  // it was paid for when it was recorded
    if (call.on_text) call.on_text(reply.answer.text);
    return reply;
  }

 private:
  using Answers = std::map<std::string, Answer>;

  /// Identifies a numbered question within its run.
  static std::string PlaceOf(const Request& request, std::string_view role) {
    return fmt::format("{} {} {} {}", request.model, role, request.sample, request.messages.size());
  }

  static const Answer* Find(const Answers& answers, const std::string& hash) {
    const auto it = answers.find(hash);
    return it == answers.end() ? nullptr : &it->second;
  }

  Error Missing(const Request& request) const {
    return {ErrorCode::kNotFound,
            fmt::format("{} has no answer of {} to request {} (sample {}): \"{}\"", source_,
                        request.model, HashOf(request).substr(0, 24), request.sample,
                        Shown(request.messages.empty() ? "" : request.messages.back().text, 80)),
            "replay with the version, options and seed of the recorded run"};
  }

  const std::string source_;
  Answers by_request_, by_prompt_, by_place_;
};

}  // namespace

std::unique_ptr<Provider> ReplayProvider(const std::vector<Exchange>& exchanges,
                                         std::string source) {
  return std::make_unique<Replay>(exchanges, std::move(source));
}

}  // namespace cupel::llm
