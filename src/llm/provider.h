// The interface of everything that answers: a web service, a program, a folder, a recording.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "llm/request.h"

namespace cupel::llm {

/// A wait looks this often whether it is to stop.
inline constexpr std::chrono::milliseconds kStopLatency(100);

/// How the caller follows a question that is under way.
struct Call {
  /// Pieces of the text in their order, on the asking thread. May be empty.
  std::function<void(std::string_view)> on_text = {};
  /// The question is asked again: the pieces so far do not count.
  std::function<void()> on_restart = {};
  /// Set by another thread to give up, within a second. May be null.
  const std::atomic<bool>* stop = nullptr;
  /// What the answer is for, in records: "proposer", "reviewer:memory".
  std::string_view role = {};

  bool Stopped() const;  // also on Ctrl-C (os::RequestCancel)
};

/// What one attempt can have cost.
enum class Billing {
  kNone,      // it did not reach the model, or the model is free
  kReported,  // answer.usage
  kUnknown,   // it reached the model, which did not say: anything up to the worst case
};

struct Failure {
  Error error;
  bool retry = false;                                    // the same request may fare better later
  std::optional<std::chrono::milliseconds> retry_after;  // as the server asked
};

/// The outcome of one attempt. A failed one keeps what had arrived.
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
  /// False: nothing that it answers is ever paid by token.
  virtual bool Metered() const = 0;
};

/// A failed attempt that cost nothing.
Reply Failed(Error error, bool retry = false);
Reply Cancelled();

}  // namespace cupel::llm
