// Limits the requests and tokens per minute to a provider, and its concurrent questions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "base/result.h"
#include "llm/provider.h"

namespace cupel::llm {

/// A token bucket that holds one minute's worth and fills evenly. The caller passes the time. Not
/// thread-safe.
class Bucket {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit Bucket(double per_minute) : per_minute_(per_minute), level_(per_minute) {}
  /// The time until `amount` can be taken; 0 if it can be taken now. An amount above the capacity
  /// waits for a full bucket, and then leaves it negative.
  std::chrono::milliseconds Wait(double amount, Time now);
  void Take(double amount, Time now);

 private:
  void Fill(Time now);
  double per_minute_, level_;
  std::optional<Time> at_;
};

struct Rates {
  std::optional<int64_t> requests_a_minute;
  std::optional<int64_t> tokens_a_minute;
  std::optional<int64_t> at_once;
};

/// Thread-safe; outlives its permits.
class Limiter {
 public:
  explicit Limiter(Rates rates);

  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept : limiter_(std::exchange(other.limiter_, nullptr)) {}
    Permit& operator=(Permit&&) = delete;
    ~Permit();

   private:
    friend class Limiter;
    explicit Permit(Limiter* limiter) : limiter_(limiter) {}
    Limiter* limiter_ = nullptr;
  };

  /// Waits until the limits allow another question. Error kCancelled.
  Result<Permit> Acquire(int64_t tokens, const Call& call);

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::optional<Bucket> requests_, tokens_;
  std::optional<int64_t> at_once_;
  int64_t under_way_ = 0;
};

}  // namespace cupel::llm
