// A kernel that is being timed: gives every replay a secret, keeps some replays' outputs, and holds
// these afterwards against replays that had no past. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "assay/sampler.h"
#include "assay/secret.h"
#include "base/random.h"
#include "engine/engine.h"
#include "task/case.h"

namespace cupel::assay {

/// What is timed, borrowed: one plan for all sets or one for each; a case a set.
struct TimedKernel {
  std::string name;
  engine::Program* program = nullptr;
  std::vector<const plan::Plan*> plans;
  std::vector<const task::Case*> cases;
};

/// True when every element of some that are drawn at random shows in the outputs once it is NaN:
/// what a kernel that is right computes needs then, most likely, all of its floating-point inputs.
/// False where there are others, which may be indices.
Result<bool> DependsOnAll(const TimedKernel& kernel, uint64_t seed);

class KernelSampler : public Sampler {
 public:
  /// `sure`: cold replays that will be counted at least.
  KernelSampler(const TimedKernel& kernel, engine::Timer& timer, size_t entrant, uint64_t seed,
                int sure = 0);

  std::string Name() const override { return kernel_.name; }
  bool IsBaseline() const override { return false; }
  Result<std::vector<double>> Take(engine::TimingMode mode, int set, int count) override;
  void BeginCounting() override;

  /// Runs what was kept once more without a past, in another process, and compares. False, with a
  /// problem, when a timed replay did not compute what its inputs ask for.
  Result<bool> Verify();
  int verified() const { return verified_; }
  /// Of the verified: replays whose secret shows in the outputs.
  int visible() const { return visible_; }

 private:
  struct Kept {
    int set = 0;
    std::vector<engine::Change> changes;
    std::vector<engine::OutputTensor> outputs;
  };
  /// Where the next cold replay's outputs go so that every one has had the same chance; nothing
  /// when they are not wanted. Which ones of those that are sure to come is drawn beforehand, since
  /// large outputs take long to bring back.
  std::optional<size_t> PlaceToKeep();
  Result<bool> VerifyOne(const Kept& kept, ChangedArguments& arguments);

  TimedKernel kernel_;
  engine::Timer& timer_;
  size_t entrant_;
  Random random_;
  std::vector<Kept> kept_;
  uint64_t sure_ = 0, counted_ = 0;
  size_t most_ = 0;            // to keep
  std::set<uint64_t> chosen_;  // of the first `sure_`
  bool counting_ = false;
  int verified_ = 0, visible_ = 0;
};

}  // namespace cupel::assay
