// The client of a model: wraps a provider with budget, rate limits, retries and records.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/random.h"
#include "base/result.h"
#include "llm/budget.h"
#include "llm/limiter.h"
#include "llm/prices.h"
#include "llm/provider.h"
#include "llm/retry.h"
#include "llm/sink.h"

namespace cupel::llm {

struct ClientParts {
  std::string name;   // "openai:gpt-x": in requests, prices and records
  Sampling sampling;  // for unset members of requests; max_tokens is set
  std::optional<Price> price;
  Budget* budget = nullptr;  // these are not owned; null: none
  Limiter* limiter = nullptr;
  Sink* sink = nullptr;
  RetryPolicy retry;
  uint64_t seed = 0;  // of the jitter
};

/// Thread-safe.
class Client {
 public:
  Client(std::unique_ptr<Provider> provider, ClientParts parts);

  /// Asks until there is an answer, or until further attempts are useless. The answer has the usage
  /// and usd of its own attempt; the record has those of every attempt. Errors have a remedy. A
  /// refusal, or an answer cut by max_tokens, is an answer (Answer::stop), not an error.
  Result<Answer> Ask(Request request, const Call& call = {});

  /// The request with the model's name and sampling, as it is sent and hashed.
  Request Complete(Request request) const;
  const std::string& name() const { return parts_.name; }

 private:
  Result<Exchange> Attempt(const Request& request, int attempt, const Call& call);
  Result<Reservation> Reserve(Spending worst, const Call& call) const;
  Result<Limiter::Permit> Admit(int64_t tokens, const Call& call) const;
  Status Pause(std::chrono::milliseconds wait, const Call& call) const;
  Result<Spending> Worst(const Request& request) const;
  double Jitter();

  std::unique_ptr<Provider> provider_;
  const ClientParts parts_;
  std::mutex mutex_;
  Random random_;
};

/// An upper bound for the tokens of a request: known tokenisers produce at most one token per byte.
Usage WorstUsage(const Request& request);

}  // namespace cupel::llm
