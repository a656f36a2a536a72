// SPDX-License-Identifier: Apache-2.0
#include "llm/budget.h"

#include <fmt/format.h>

#include <utility>

namespace cupel::llm {
namespace {

Spending operator+(Spending a, Spending b) { return {a.money + b.money, a.tokens + b.tokens}; }

}  // namespace

Reservation::Reservation(Reservation&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), amount_(other.amount_) {}

Reservation::~Reservation() { Settle(amount_); }

void Reservation::Settle(Spending actual) {
  Budget* budget = std::exchange(budget_, nullptr);
  if (budget == nullptr) return;
  {
    const std::lock_guard lock(budget->mutex_);
    budget->reserved_.money -= amount_.money;
    budget->reserved_.tokens -= amount_.tokens;
    budget->spent_ = budget->spent_ + actual;
  }
  budget->settled_.notify_all();
}

bool Budget::Fits(Spending more) const {
  return (!limits_.money || more.money <= *limits_.money) &&
         (!limits_.tokens || more.tokens <= *limits_.tokens);
}

Error Budget::Exceeded(Spending worst) const {
  if (limits_.money && spent_.money + worst.money > *limits_.money) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("the money budget is exhausted: ${:.4f} of ${:.4f} are used, and the next "
                        "question may cost ${:.4f}",
                        Dollars(spent_.money), Dollars(*limits_.money), Dollars(worst.money)),
            "raise the budget, or lower max_tokens"};
  }
  return {ErrorCode::kInvalidArgument,
          fmt::format("the token budget is exhausted: {} of {} are used, and the next question may "
                      "take {}",
                      spent_.tokens, limits_.tokens.value_or(0), worst.tokens),
          "raise the budget, or lower max_tokens"};
}

Result<Reservation> Budget::Reserve(Spending worst, const Call& call) {
  std::unique_lock lock(mutex_);
  while (!Fits(spent_ + reserved_ + worst)) {
    if (!Fits(spent_ + worst)) return tl::unexpected(Exceeded(worst));
    if (call.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "cancelled");
    settled_.wait_for(lock, kStopLatency);
  }
  reserved_ = reserved_ + worst;
  return Reservation(this, worst);
}

void Budget::Charge(Spending spent) {
  const std::lock_guard lock(mutex_);
  spent_ = spent_ + spent;
}

Spending Budget::Spent() const {
  const std::lock_guard lock(mutex_);
  return spent_;
}

}  // namespace cupel::llm
