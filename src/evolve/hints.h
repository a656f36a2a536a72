// Strategy hints: short advice on making CUDA kernels fast. A few go into each request, so that
// proposals differ. Rewards decide which hints are used, and hints with high rewards become parents
// of new ones.
// SPDX-License-Identifier: Apache-2.0
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
  std::string topic;      // "shared-memory": a request has at most one hint of a topic
  std::string bound;      // the limit it addresses: "memory", "compute" or "latency" (launches too)
  std::string direction;  // "forward", "backward"; empty: both
  std::string dtype;      // "float32", "16-bit"; empty: all
  /// What the operation or kernel must have: "products" (sums of products of two tensors),
  /// "statistics" (sums or maxima of rows), "wgmma" (products, on a GPU that has it), "latency" (a
  /// kernel bound by it); empty: nothing.
  std::string needs;
  std::string text;    // for the model
  std::string origin;  // "built-in", "evolved"
  std::vector<int64_t> parents;
  double tried = 0, earned = 0;  // number of rewards, and their sum
};

/// What a kernel is for, and what limits it.
struct HintFit {
  bool backward = false;
  bool has_float32 = true, has_16bit = true;  // among its arguments and results
  bool has_products = true;                   // sums of products of two tensors: matrices, filters
  bool has_statistics = true;                 // sums or maxima: norms, softmax, means
  bool has_wgmma = false;                     // the GPU's instructions
  std::string bound = {};                     // Hint::bound; empty: unknown
};

/// The fit of a proposal that edits `parent` in a few places: no hint about wgmma unless it has
/// some.
HintFit ForEdits(HintFit fit, std::string_view parent);

/// The expected reward of a proposal that gets this hint: the mean of its Beta distribution.
double Expected(const Hint& hint);

/// Thread-compatible.
class Hints {
 public:
  static constexpr size_t kMaxTextBytes = 1000;

  /// Ids are distinct and not negative.
  explicit Hints(std::vector<Hint> hints);
  /// The built-in hints, for forward and backward kernels.
  static Hints BuiltIn();

  const std::vector<Hint>& all() const { return hints_; }
  /// nullptr if there is no such hint, or if it was retired.
  const Hint* Find(int64_t id) const;

  /// Up to `count` hints that fit, at most one of each topic: those with the largest draws from
  /// Beta(1 + earned, 1 + tried - earned) (Thompson 1933). At least half of them address
  /// `fit.bound`, if there are enough. The pointers are valid until the next change.
  std::vector<const Hint*> Sample(int count, const HintFit& fit, Random random) const;

  /// Records the reward of a proposal that got this hint, clamped to [0, 1]. Ignores retired hints.
  void Reward(int64_t id, double reward);

  /// Adds an evolved hint and returns its id. What it is for is taken from the first of `parents`
  /// that exists. Error kInvalidArgument: no parent exists, or the text is empty, too long or a
  /// duplicate.
  Result<int64_t> Add(std::string text, std::vector<int64_t> parents);

  /// Drops the hints with the lowest expected reward (of equals, the latest) until `capacity` are
  /// left. Keeps the last hint of a topic as long as other hints can be dropped.
  void Retire(size_t capacity);

  Json State() const;
  /// Error kInvalidArgument: not the output of State().
  static Result<Hints> FromState(const Json& state);

 private:
  std::vector<Hint> hints_;  // by ascending id
  int64_t next_id_ = 0;      // ids of retired hints are not reused
};

}  // namespace cupel::evolve
