// SPDX-License-Identifier: Apache-2.0
#include "llm/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace cupel::llm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Tokens that a provider may add per message and per request.
constexpr int64_t kTokensAroundMessage = 16;
constexpr int64_t kTokensAroundAll = 64;

/// The charge for an attempt. Also sets the usage and usd of its answer.
Spending Charge(Exchange& exchange, const std::optional<Price>& price) {
  Answer& answer = exchange.answer;
  if (exchange.billing == Billing::kNone) return {};
  if (exchange.billing == Billing::kUnknown) {
    answer.usage = WorstUsage(exchange.request);
    answer.usage_bound = true;
    answer.usd = Dollars(exchange.worst.money);
    return exchange.worst;
  }
  const NanoUsd money = price ? price->Of(answer.usage) : 0;
  answer.usd = Dollars(money);
  return {money, answer.usage.input_tokens + answer.usage.output_tokens};
}

}  // namespace

Usage WorstUsage(const Request& request) {
  size_t bytes = request.system.size();
  for (const Message& message : request.messages) bytes += message.text.size();
  Usage usage;
  usage.input_tokens = static_cast<int64_t>(bytes) + kTokensAroundAll +
                       kTokensAroundMessage * static_cast<int64_t>(request.messages.size());
  usage.output_tokens = request.sampling.max_tokens.value_or(0);
  return usage;
}

Client::Client(std::unique_ptr<Provider> provider, ClientParts parts)
    : provider_(std::move(provider)), parts_(std::move(parts)), random_(parts_.seed) {}

Request Client::Complete(Request request) const {
  const Sampling& own = parts_.sampling;
  Sampling& sampling = request.sampling;
  request.model = parts_.name;
  request.system = ValidUtf8(request.system);
  for (Message& message : request.messages) message.text = ValidUtf8(message.text);
  if (!sampling.max_tokens) sampling.max_tokens = own.max_tokens;
  if (!sampling.temperature) sampling.temperature = own.temperature;
  if (!sampling.effort) sampling.effort = own.effort;
  if (!sampling.thinking_tokens) sampling.thinking_tokens = own.thinking_tokens;
  if (!sampling.seed) sampling.seed = own.seed;
  return request;
}

Result<Answer> Client::Ask(Request request, const Call& call) {
  request = Complete(std::move(request));
  if (request.messages.empty() || request.messages.back().role != Role::kUser) {
    return Fail(ErrorCode::kInternal, "a request must end with a user message");
  }
  for (int attempt = 1;; ++attempt) {
    TRY_ASSIGN(Exchange exchange, Attempt(request, attempt, call));
    if (!exchange.failure) return std::move(exchange.answer);
    const Failure& failure = *exchange.failure;
    if (!failure.retry) return tl::unexpected(failure.error);
    const milliseconds wait = Backoff(parts_.retry, attempt + 1, Jitter(), failure.retry_after);
    if (attempt >= parts_.retry.attempts || wait > parts_.retry.max_wait) {
      Error error = failure.error;
      if (wait > parts_.retry.max_wait) {
        error.message += fmt::format("; the service asks to wait {} s", wait.count() / 1000);
      } else if (attempt > 1) {
        error.message += fmt::format(" ({} attempts)", attempt);
      }
      return tl::unexpected(std::move(error));
    }
    TRY(Pause(wait, call));
    if (call.on_restart) call.on_restart();
  }
}

Result<Exchange> Client::Attempt(const Request& request, int attempt, const Call& call) {
  Exchange exchange;
  exchange.request = request;
  exchange.hash = HashOf(request);
  exchange.role = call.role;
  exchange.attempt = attempt;
  TRY_ASSIGN(exchange.worst, Worst(request));
  TRY_ASSIGN(const Limiter::Permit permit, Admit(exchange.worst.tokens, call));
  TRY_ASSIGN(Reservation reservation, Reserve(exchange.worst, call));
  if (parts_.sink != nullptr) {
    const Status recorded = parts_.sink->Began(exchange);
    if (!recorded) {
      reservation.Settle({});  // no question was sent
      return tl::unexpected(recorded.error());
    }
  }
  const auto start = Clock::now();
  Reply reply = provider_->Ask(request, call);
  exchange.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  exchange.answer = std::move(reply.answer);
  exchange.answer.text = ValidUtf8(exchange.answer.text);
  exchange.answer.reasoning = ValidUtf8(exchange.answer.reasoning);
  exchange.failure = std::move(reply.failure);
  exchange.billing = reply.billing;
  exchange.spent = Charge(exchange, parts_.price);
  reservation.Settle(exchange.spent);
  if (parts_.sink != nullptr) TRY(parts_.sink->Ended(exchange));
  return exchange;
}

Result<Spending> Client::Worst(const Request& request) const {
  if (!provider_->Metered()) return Spending{};
  const Usage usage = WorstUsage(request);
  const bool counted = parts_.budget != nullptr && parts_.budget->limits().money;
  if (counted && !parts_.price) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has no price, so a money budget cannot be enforced", parts_.name),
                "add it to prices.json (docs/models.md), or limit tokens instead of money");
  }
  return Spending{parts_.price ? parts_.price->Of(usage) : 0,
                  usage.input_tokens + usage.output_tokens};
}

Result<Reservation> Client::Reserve(Spending worst, const Call& call) const {
  if (parts_.budget == nullptr || !provider_->Metered()) return Reservation();
  return parts_.budget->Reserve(worst, call);
}

Result<Limiter::Permit> Client::Admit(int64_t tokens, const Call& call) const {
  if (parts_.limiter == nullptr) return Limiter::Permit();
  return parts_.limiter->Acquire(tokens, call);
}

Status Client::Pause(milliseconds wait, const Call& call) const {
  const auto end = Clock::now() + wait;
  while (Clock::now() < end) {
    if (call.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "cancelled");
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    std::this_thread::sleep_for(std::clamp(left, milliseconds(0), kStopLatency));
  }
  return {};
}

double Client::Jitter() {
  const std::lock_guard lock(mutex_);
  return random_.Unit();
}

}  // namespace cupel::llm
