// Where every prompt and answer goes before the caller sees it: an archive, a transcript.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "llm/budget.h"
#include "llm/provider.h"
#include "llm/request.h"

namespace cupel::llm {

/// One attempt at a request.
struct Exchange {
  Request request;   // complete: with model and sampling
  std::string hash;  // HashOf(request)
  std::string role;  // Call::role
  int attempt = 1;
  Spending worst;  // what it may cost

  // Once it has ended.
  Answer answer;  // of a failed attempt, what had arrived
  std::optional<Failure> failure;
  Billing billing = Billing::kNone;
  Spending spent;  // what was charged
  double seconds = 0;
};

/// Called by many threads. An Error ends the question: what cannot be recorded is not used.
class Sink {
 public:
  virtual ~Sink() = default;
  /// It is about to be asked. An exchange that never ends (power loss) may have cost `worst`.
  virtual Status Began(const Exchange& exchange) = 0;
  virtual Status Ended(const Exchange& exchange) = 0;
};

}  // namespace cupel::llm
