// What of a web service's errors is worth another try, when, and what the user can do.
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
  int attempts = 6;  // in all
  std::chrono::milliseconds first{1000};
  std::chrono::milliseconds longest{60000};  // of our own waits
  /// A server that wants us to wait longer is not waited for.
  std::chrono::milliseconds patience{300000};
};

/// What a service said of a request that it did not answer.
struct ServiceError {
  int status = 0;       // of HTTP; 0 within a stream
  std::string type;     // "overloaded_error", "insufficient_quota" …
  std::string message;  // hostile text
  std::optional<std::chrono::milliseconds> retry_after;
};

/// `service` is what the messages call it: "anthropic (api.anthropic.com)"; `key` the variable that
/// holds its key.
Failure Classify(const ServiceError& error, std::string_view service, std::string_view key);

/// The wait before attempt `next` (2, 3 …): doubling, with between half and all of it, as `unit` in
/// [0, 1) says; never less than the server asked for.
std::chrono::milliseconds Backoff(const RetryPolicy& policy, int next, double unit,
                                  std::optional<std::chrono::milliseconds> retry_after);

/// A Retry-After header: seconds, or a date of HTTP. nullopt when it is neither; a date that has
/// passed is 0.
std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view text, std::time_t now);

}  // namespace cupel::llm
