// The interface of everything that answers questions: web services, programs, folders, recordings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>

#include "base/result.h"
#include "llm/request.h"

namespace cupel::llm {

/// Interval at which waits check for a stop request.
inline constexpr std::chrono::milliseconds kStopLatency(100);

/// How the caller follows and stops a question.
struct Call {
  /// Receives the pieces of the text in order, on the asking thread. May be empty.
  std::function<void(std::string_view)> on_text = {};
  /// The question is asked again: discard the pieces so far.
  std::function<void()> on_restart = {};
  /// A stop request ends the question within a second, with kCancelled.
  std::stop_token stop = {};
  /// The purpose of the answer, for records: "proposer", "reviewer:memory".
  std::string_view role = {};
  /// What it is about, for people and programs that answer: "generation 2, proposal 1, from …".
  std::string_view about = {};
};

/// What one attempt may have cost.
enum class Billing {
  kNone,      // nothing: it did not reach the model, or the model is free
  kReported,  // answer.usage
  kUnknown,   // up to the worst case: it reached the model, which reported no usage
};

struct Failure {
  Error error;
  bool retry = false;                                    // the same request may succeed later
  std::optional<std::chrono::milliseconds> retry_after;  // requested by the server
};

/// The outcome of one attempt. A failed attempt keeps the text that arrived.
struct Reply {
  Answer answer;
  Billing billing = Billing::kNone;
  std::optional<Failure> failure;
};

/// Thread-safe: Ask may run on many threads at once.
class Provider {
 public:
  virtual ~Provider() = default;
  /// One attempt, no retries.
  virtual Reply Ask(const Request& request, const Call& call) = 0;
  /// False if its answers are never billed by token.
  virtual bool Metered() const = 0;
};

/// A failed attempt that cost nothing.
Reply Failed(Error error, bool retry = false);
Reply Cancelled();

}  // namespace cupel::llm
