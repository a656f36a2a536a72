// The money and tokens that a run may spend. The worst-case cost of a question is reserved before
// it is asked, and settled afterwards, so the limit is never exceeded, on any number of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "llm/prices.h"
#include "llm/provider.h"

namespace cupel::llm {

struct Spending {
  NanoUsd money = 0;
  int64_t tokens = 0;  // input and output
};

struct BudgetLimits {
  std::optional<NanoUsd> money;
  std::optional<int64_t> tokens;
};

class Budget;

/// A reserved part of a budget. Move-only. Without a call of Settle the whole amount is charged,
/// because the question may have cost that much.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();
  void Settle(Spending actual);

 private:
  friend class Budget;
  Reservation(Budget* budget, Spending amount) : budget_(budget), amount_(amount) {}
  Budget* budget_ = nullptr;
  Spending amount_;
};

/// Thread-safe. Outlives its reservations.
class Budget {
 public:
  explicit Budget(BudgetLimits limits = {}) : limits_(limits) {}

  /// Waits while other reservations hold the needed amount. Errors: kInvalidArgument if the worst
  /// case exceeds the unspent budget; kCancelled.
  Result<Reservation> Reserve(Spending worst, const Call& call);
  /// Charges what an earlier part of the run has spent.
  void Charge(Spending spent);
  Spending Spent() const;
  const BudgetLimits& limits() const { return limits_; }

 private:
  friend class Reservation;
  bool Fits(Spending more) const;
  Error Exceeded(Spending worst) const;

  const BudgetLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable settled_;
  Spending spent_, reserved_;
};

}  // namespace cupel::llm
