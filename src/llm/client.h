// A model as the rest of the program asks it: the provider behind its budget, its rates, its
// retries and its record. SPDX-License-Identifier: Apache-2.0
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
  Sampling sampling;  // for what a request leaves open; max_tokens is set
  std::optional<Price> price;
  Budget* budget = nullptr;  // none of these is owned; null: there is none
  Limiter* limiter = nullptr;
  Sink* sink = nullptr;
  RetryPolicy retry;
  uint64_t seed = 0;  // of the jitter
};

/// Thread-safe.
class Client {
 public:
  Client(std::unique_ptr<Provider> provider, ClientParts parts);

  /// Asks until there is an answer or no further try makes sense. The answer's usage and usd are
  /// those of the attempt that gave it; each attempt is in the record with its own. Errors have a
  /// remedy; a model that refuses, or is cut off by max_tokens, has answered (Answer::stop).
  Result<Answer> Ask(Request request, const Call& call = {});

  /// The request as it is asked and hashed: with the model's name and sampling.
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

/// The most tokens that a request can take: every known tokeniser makes at most one of a byte.
Usage WorstUsage(const Request& request);

}  // namespace cupel::llm
