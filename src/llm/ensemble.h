// Which of several models is asked next: Thompson sampling on what their proposals have earned.
// Each model's chance of earning is a Beta distribution, begun by its weight and fed by rewards in
// [0, 1]; the model with the largest draw is asked. Older rewards fade, since what is easy early is
// hard later, and with the floor's probability the choice is made by weight alone, so that no model
// is forgotten. Deterministic by its seed. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cupel::llm {

struct EnsembleOptions {
  double floor = 0.15;   // of the choices are made by weight
  double memory = 0.98;  // of a reward is left after each later one
  uint64_t seed = 0;
};

/// Thread-compatible.
class Ensemble {
 public:
  struct Member {
    std::string name;
    double weight = 1;
    // What has been learned.
    double earned = 0, missed = 0;  // faded sums of reward and of 1 - reward
    int64_t asked = 0, rewarded = 0;
    double total = 0;  // of all rewards, not faded
  };

  /// At least one member; weights are positive.
  Ensemble(std::vector<Member> members, EnsembleOptions options);

  /// The index of the model to ask next.
  size_t Choose();
  /// What a proposal of that model was worth: 0 nothing, 1 the most. Clamped; in any order.
  void Reward(size_t member, double reward);

  const std::vector<Member>& members() const { return members_; }
  /// The expected reward of a member, for reports.
  double Expected(size_t member) const;

  Json State() const;
  /// Goes on from State() of an ensemble with the same members' names. Error kInvalidArgument.
  Status Restore(const Json& state);

 private:
  std::vector<Member> members_;
  EnsembleOptions options_;
  int64_t choices_ = 0;
};

}  // namespace cupel::llm
