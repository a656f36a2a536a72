// Classifies errors of web services: whether and when to retry, and what the user can do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "llm/provider.h"

namespace cupel::llm {

struct RetryPolicy {
  int attempts = 6;  // in total
  std::chrono::milliseconds first{1000};
  std::chrono::milliseconds longest{60000};  // of waits that we choose
  /// If a server requests a longer wait, the question fails.
  std::chrono::milliseconds max_wait{300000};
};

/// The error of a service that did not answer a request.
struct ServiceError {
  int status = 0;       // HTTP status; 0: error within a stream
  std::string type;     // "overloaded_error", "insufficient_quota" …
  std::string message;  // untrusted text
  std::optional<std::chrono::milliseconds> retry_after;
};

/// `service` names the service in messages: "anthropic (api.anthropic.com)". `key` is the variable
/// that has its key.
Failure Classify(const ServiceError& error, std::string_view service, std::string_view key);

/// The wait before attempt `next` (2, 3 …). Doubles with each attempt; `unit` in [0, 1) selects
/// between half and all of it. Never shorter than the server requested.
std::chrono::milliseconds Backoff(const RetryPolicy& policy, int next, double unit,
                                  std::optional<std::chrono::milliseconds> retry_after);

/// Parses a Retry-After header: seconds, or an HTTP date. nullopt if it is neither; 0 for a date in
/// the past.
std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view text, std::time_t now);

}  // namespace cupel::llm
