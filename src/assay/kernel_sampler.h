// A kernel that is being timed. Gives every replay a secret, keeps some replays' outputs, and later
// compares these with a clean re-execution.
// SPDX-License-Identifier: Apache-2.0
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

/// What is timed, all borrowed: one plan for all sets or one per set, and one case per set.
struct TimedKernel {
  std::string name;
  engine::Program* program = nullptr;
  std::vector<const plan::Plan*> plans;
  std::vector<const task::Case*> cases;
};

/// True if replacing random input elements by NaN always changes the outputs. Then a correct kernel
/// most likely depends on all of its floating-point inputs. False if there are other inputs, which
/// may be indices.
Result<bool> DependsOnAll(const TimedKernel& kernel, uint64_t seed);

class KernelSampler : public Sampler {
 public:
  /// `least`: the minimum number of cold replays that will be counted.
  KernelSampler(const TimedKernel& kernel, engine::Timer& timer, size_t entrant, uint64_t seed,
                int least = 0);

  std::string Name() const override { return kernel_.name; }
  bool IsBaseline() const override { return false; }
  Result<std::vector<double>> Take(engine::TimingMode mode, int set, int count) override;
  void BeginCounting() override;

  /// Executes the kept replays again with clean state, in another process, and compares. Returns
  /// false, and sets problem(), if a timed replay returned a wrong result for its inputs.
  Result<bool> Verify();
  int verified() const { return verified_; }
  /// The number of verified replays whose secret is visible in the outputs.
  int visible() const { return visible_; }

 private:
  struct Kept {
    int set = 0;
    std::vector<engine::Change> changes;
    std::vector<engine::OutputTensor> outputs;
  };
  /// The slot for the next cold replay's outputs, or nothing if they are not kept. Every replay has
  /// the same chance of being kept. For the first `least_` replays the choice is made in advance,
  /// because copying large outputs takes long.
  std::optional<size_t> PlaceToKeep();
  Result<bool> VerifyOne(const Kept& kept, ChangedArguments& arguments);

  TimedKernel kernel_;
  engine::Timer& timer_;
  size_t entrant_;
  Random random_;
  std::vector<Kept> kept_;
  uint64_t least_ = 0, counted_ = 0;
  size_t most_ = 0;            // kept at most
  std::set<uint64_t> chosen_;  // kept among the first `least_`
  bool counting_ = false;
  int verified_ = 0, visible_ = 0;
};

}  // namespace cupel::assay
