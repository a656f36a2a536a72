// Chooses which of several models to ask next, by Thompson sampling on the rewards of their
// proposals. Each model has a Beta distribution, whose prior comes from its weight and which is
// updated by rewards in [0, 1]. The model with the largest draw is asked. Older rewards fade,
// because improvements get harder during a run. With probability `floor`, only the weights decide,
// so that every model is asked sometimes. Deterministic by seed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cupel::llm {

struct EnsembleOptions {
  double floor = 0.15;   // share of choices by weight alone
  double memory = 0.98;  // factor on earlier rewards at each new one
  uint64_t seed = 0;
};

/// Thread-compatible.
class Ensemble {
 public:
  struct Member {
    std::string name;
    double weight = 1;
    // Learned.
    double earned = 0, missed = 0;  // faded sums of reward and of 1 - reward
    int64_t asked = 0, rewarded = 0;
    double total = 0;  // sum of all rewards, not faded
  };

  /// At least one member; weights are positive.
  Ensemble(std::vector<Member> members, EnsembleOptions options);

  /// The index of the model to ask next.
  size_t Choose();
  /// Records the reward of a proposal of that model, clamped to [0, 1]. Rewards may come in any
  /// order.
  void Reward(size_t member, double reward);

  const std::vector<Member>& members() const { return members_; }
  /// The expected reward of a member, for reports.
  double Expected(size_t member) const;

  Json State() const;
  /// Restores State() of an ensemble whose members have the same names. Error kInvalidArgument.
  Status Restore(const Json& state);

 private:
  std::vector<Member> members_;
  EnsembleOptions options_;
  int64_t choices_ = 0;
};

}  // namespace cupel::llm
