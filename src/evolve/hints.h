// Strategy hints: short pieces of advice on making CUDA kernels fast, a few of which go into each
// request so that proposals differ. Which ones is decided by what they have earned, and hints that
// earned much become parents of new ones. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "base/result.h"

namespace cupel::evolve {

struct Hint {
  int64_t id = 0;
  std::string topic;   // "shared-memory": a request has one hint of a topic at most
  std::string bound;   // what it relieves: "memory", "compute" or "latency" (of launches too)
  std::string text;    // to the model
  std::string origin;  // "built-in", "evolved"
  std::vector<int64_t> parents;
  double tried = 0, earned = 0;  // rewards given, and their sum
};

/// The reward to expect of a proposal that is given it: the mean of its Beta distribution.
double Expected(const Hint& hint);

/// Thread-compatible.
class Hints {
 public:
  static constexpr size_t kMaxTextBytes = 1000;

  /// Ids are distinct and not negative.
  explicit Hints(std::vector<Hint> hints);
  /// Those that cupel brings, for forward and backward kernels.
  static Hints BuiltIn();

  const std::vector<Hint>& all() const { return hints_; }
  /// nullptr for a hint that is not there (any more).
  const Hint* Find(int64_t id) const;

  /// Up to `count` hints of as many topics: those with the largest draws from
  /// Beta(1 + earned, 1 + tried - earned) (Thompson 1933). Pointers hold until the next change.
  std::vector<const Hint*> Sample(int count, Random random) const;

  /// What a proposal that was given this hint was worth: 0 nothing, 1 the most. Clamped. Nothing
  /// happens for a hint that has been retired.
  void Reward(int64_t id, double reward);

  /// Adds an evolved hint, with topic and bound of the first of `parents` that is there (at least
  /// one must be); its id. Error kInvalidArgument: a text that is empty, too long or there already.
  Result<int64_t> Add(std::string text, std::vector<int64_t> parents);

  /// Drops the hints with the least expected reward until `capacity` are left; of equals, the
  /// latest. A topic's last hint stays while others can go.
  void Retire(size_t capacity);

  Json State() const;
  /// Error kInvalidArgument: not what State() writes.
  static Result<Hints> FromState(const Json& state);

 private:
  std::vector<Hint> hints_;  // by ascending id
  int64_t next_id_ = 0;      // retired ids do not come back
};

}  // namespace cupel::evolve
