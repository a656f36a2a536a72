// SPDX-License-Identifier: Apache-2.0
#include "llm/limiter.h"

#include <algorithm>
#include <cmath>

namespace cupel::llm {

using std::chrono::milliseconds;

void Bucket::Fill(Time now) {
  if (at_ && now > *at_) {
    const double minutes = std::chrono::duration<double>(now - *at_).count() / 60;
    level_ = std::min(per_minute_, level_ + per_minute_ * minutes);
  }
  at_ = now;
}

milliseconds Bucket::Wait(double amount, Time now) {
  Fill(now);
  const double missing = std::min(amount, per_minute_) - level_;
  if (missing <= 0) return milliseconds(0);
  return milliseconds(static_cast<int64_t>(std::ceil(missing / per_minute_ * 60e3)));
}

void Bucket::Take(double amount, Time now) {
  Fill(now);
  level_ -= amount;
}

Limiter::Limiter(Rates rates) : at_once_(rates.at_once) {
  if (rates.requests_a_minute) requests_.emplace(static_cast<double>(*rates.requests_a_minute));
  if (rates.tokens_a_minute) tokens_.emplace(static_cast<double>(*rates.tokens_a_minute));
}

Limiter::Permit::~Permit() {
  if (limiter_ == nullptr) return;
  {
    const std::lock_guard lock(limiter_->mutex_);
    --limiter_->under_way_;
  }
  limiter_->freed_.notify_all();
}

Result<Limiter::Permit> Limiter::Acquire(int64_t tokens, const Call& call) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (call.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "cancelled");
    const auto now = std::chrono::steady_clock::now();
    milliseconds wait(0);
    if (at_once_ && under_way_ >= *at_once_) wait = kStopLatency;
    if (requests_) wait = std::max(wait, requests_->Wait(1, now));
    if (tokens_) wait = std::max(wait, tokens_->Wait(static_cast<double>(tokens), now));
    if (wait == milliseconds(0)) {
      if (requests_) requests_->Take(1, now);
      if (tokens_) tokens_->Take(static_cast<double>(tokens), now);
      ++under_way_;
      return Permit(this);
    }
    freed_.wait_for(lock, std::min(wait, kStopLatency));
  }
}

}  // namespace cupel::llm
