// The interface of records (archive, transcript) that get every prompt and answer before the caller
// sees it.
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
  Request request;   // with model and sampling
  std::string hash;  // HashOf(request)
  std::string role;  // Call::role
  int attempt = 1;
  Spending worst;  // maximum cost

  // Set at the end.
  Answer answer;  // for a failed attempt: what arrived
  std::optional<Failure> failure;
  Billing billing = Billing::kNone;
  Spending spent;  // what was charged
  double seconds = 0;
};

/// Must be thread-safe. An Error ends the question: an answer that cannot be recorded is not used.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Called before the question is sent. An exchange without an end (power loss) may have cost
  /// `worst`.
  virtual Status Began(const Exchange& exchange) = 0;
  virtual Status Ended(const Exchange& exchange) = 0;
};

}  // namespace cupel::llm
