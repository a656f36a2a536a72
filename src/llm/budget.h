// Money and tokens that a run may spend. The worst case of a question is reserved before it is
// asked and settled after, so that the limit holds at every instant, on any number of threads.
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

/// A claim on a budget. Move-only. What is not settled is charged in full: a question whose end
/// nobody saw may have cost all of it.
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

  /// Waits while others hold what would be enough. Errors: kInvalidArgument with what to do when
  /// the worst case exceeds what is left; kCancelled.
  Result<Reservation> Reserve(Spending worst, const Call& call);
  /// What an earlier part of the run has spent.
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
