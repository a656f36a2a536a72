// A kernel that sums its argument, with a fake engine and a fake clock. The sampler must
// distinguish a kernel that computes from one that returns remembered results.
// SPDX-License-Identifier: Apache-2.0
#include "assay/kernel_sampler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>

#include "assay/secret.h"

namespace cupel::assay {
namespace {

using engine::OutputTensor;
using engine::TakeRequest;
using engine::TimingMode;
using Arguments = std::span<const std::span<const std::byte>>;
using Compute = std::function<float(const std::vector<float>&)>;

constexpr int64_t kElements = 64;
constexpr int kSets = 2;

float Sum(const std::vector<float>& x) {
  float sum = 0;
  for (const float value : x) sum += value;
  return sum;
}

/// Two outputs, so that an index that is off by one shows.
std::vector<OutputTensor> Outputs(float value) {
  OutputTensor output, none;
  output.shape = {1};
  output.bytes.resize(sizeof value);
  std::memcpy(output.bytes.data(), &value, sizeof value);
  none.is_none = true;
  return {none, output};
}

std::vector<float> Floats(std::span<const std::byte> storage) {
  std::vector<float> values(storage.size() / sizeof(float));
  std::memcpy(values.data(), storage.data(), storage.size());
  return values;
}

class FakeProgram : public engine::Program {
 public:
  Result<engine::Run> Execute(const plan::Plan& plan, Arguments arguments,
                              const engine::RunOptions&) override {
    plans.insert(&plan);
    engine::Run run;
    run.completed = completes;
    if (completes) run.outputs = Outputs(compute(Floats(arguments[0])));
    return run;
  }
  Compute compute = Sum;
  bool completes = true;
  std::set<const plan::Plan*> plans;
};

/// Replays `compute` on the changed arguments, or returns the first result again.
class FakeTimer : public engine::Timer {
 public:
  explicit FakeTimer(const std::vector<task::Case>& cases) : cases_(cases) {}
  int Sets() const override { return kSets; }
  Result<engine::Taken> Take(const TakeRequest& request) override {
    requests.push_back(request);
    engine::Taken taken = answer;
    if (!taken.findings.empty() || !taken.unsupported.empty()) return taken;
    taken.us.assign(static_cast<size_t>(request.count), 3.5);
    ChangedArguments arguments(cases_[static_cast<size_t>(request.set)]);
    const float now = compute(Floats(arguments.Change(request.changes)[0]));
    if (!remembered_) remembered_ = now;
    // A kernel could skip replays whose outputs are not kept, if it knew them.
    if (request.keep_outputs) taken.outputs = Outputs(is_stale ? *remembered_ : now);
    return taken;
  }
  Result<double> MeasureOverhead() override { return 0.0; }
  Result<records::EnergyUse> MeasureEnergy(size_t, double) override { return records::EnergyUse(); }
  Result<std::vector<records::Finding>> Finish() override {
    return std::vector<records::Finding>();
  }
  Compute compute = Sum;
  bool is_stale = false;
  engine::Taken answer;
  std::vector<TakeRequest> requests;

 private:
  const std::vector<task::Case>& cases_;
  std::optional<float> remembered_;
};

class KernelSamplerTest : public ::testing::Test {
 protected:
  KernelSamplerTest() : cases_(kSets), inputs_(kSets), truths_(kSets) {
    for (size_t set = 0; set < kSets; ++set) {
      for (int i = 0; i < kElements; ++i) {
        inputs_[set].push_back(static_cast<float>(i + 100 * static_cast<int>(set)));
      }
      truths_[set] = Sum(inputs_[set]);
      task::Tensor x;
      x.shape = {kElements};
      x.strides = {1};
      x.storage = std::as_bytes(std::span(inputs_[set]));
      cases_[set].args = {task::Value{x}};
      task::Output none, output;
      none.is_none = true;
      output.shape = {1};
      output.error_scale = 1e-3;
      output.truth.dtype = DType::kF64;
      output.truth.shape = {1};
      output.truth.strides = {1};
      output.truth.storage = std::as_bytes(std::span(&truths_[set], 1));
      cases_[set].outputs = {none, output};
      kernel_.cases.push_back(&cases_[set]);
      kernel_.plans.push_back(&plans_[set]);
    }
    kernel_.name = "sum.cu";
    kernel_.program = &program_;
  }

  /// Like Measure: some rounds that do not count, `rounds` that do, one warm and one host replay.
  bool TakeAll(KernelSampler* sampler, int rounds) {
    for (int round = 0; round < 4 + rounds; ++round) {
      if (round == 4) sampler->BeginCounting();
      if (!TakeOne(sampler, TimingMode::kCold, round % kSets)) return false;
    }
    return TakeOne(sampler, TimingMode::kWarm, 0) && TakeOne(sampler, TimingMode::kHost, 0);
  }
  static bool TakeOne(KernelSampler* sampler, TimingMode mode, int set) {
    const auto taken = sampler->Take(mode, set, 1);
    EXPECT_TRUE(taken.has_value());
    return taken && taken->size() == 1;
  }

  std::vector<task::Case> cases_;
  std::vector<std::vector<float>> inputs_;
  std::vector<double> truths_;
  plan::Plan plans_[kSets];
  FakeProgram program_;
  TimedKernel kernel_;
  FakeTimer timer_{cases_};
};

TEST_F(KernelSamplerTest, CorrectKernelPassesAndSecretsAreVisible) {
  KernelSampler sampler(kernel_, timer_, 3, 1);
  ASSERT_TRUE(TakeAll(&sampler, 40));
  const auto right = sampler.Verify();
  ASSERT_TRUE(right.has_value());
  EXPECT_TRUE(*right);
  EXPECT_FALSE(sampler.problem().has_value());
  EXPECT_EQ(sampler.verified(), 9) << "eight cold replays and one warm replay";
  EXPECT_GT(sampler.visible(), 0);
  EXPECT_EQ(program_.plans, (std::set<const plan::Plan*>{&plans_[0], &plans_[1]}));
  for (const TakeRequest& request : timer_.requests) EXPECT_EQ(request.entrant, 3u);
}

TEST_F(KernelSamplerTest, EveryReplayHasItsOwnSecret) {
  KernelSampler sampler(kernel_, timer_, 0, 1);
  ASSERT_TRUE(TakeAll(&sampler, 40));
  std::set<std::pair<uint64_t, std::string>> secrets;
  for (const TakeRequest& request : timer_.requests) {
    ASSERT_EQ(request.changes.size(), 1u);
    secrets.insert({request.changes[0].offset, request.changes[0].bytes});
  }
  EXPECT_GT(secrets.size(), 30u);
}

TEST_F(KernelSamplerTest, SecretsDependOnTheSeed) {
  KernelSampler one(kernel_, timer_, 0, 1), other(kernel_, timer_, 0, 2);
  ASSERT_TRUE(TakeAll(&one, 10));
  const size_t first = timer_.requests.size();
  ASSERT_TRUE(TakeAll(&other, 10));
  int alike = 0;
  for (size_t i = 0; i < first; ++i) {
    alike += timer_.requests[i].changes[0].offset == timer_.requests[first + i].changes[0].offset;
  }
  EXPECT_LT(alike, static_cast<int>(first) / 2);
}

TEST_F(KernelSamplerTest, RejectsRememberedOutputs) {
  timer_.is_stale = true;
  KernelSampler sampler(kernel_, timer_, 0, 1);
  ASSERT_TRUE(TakeAll(&sampler, 40));
  const auto right = sampler.Verify();
  ASSERT_TRUE(right.has_value());
  EXPECT_FALSE(*right);
  ASSERT_TRUE(sampler.problem().has_value());
  EXPECT_EQ(sampler.problem()->code, "wrong_timed_result");
  EXPECT_EQ(sampler.problem()->where, "output 1");
}

TEST_F(KernelSamplerTest, KernelThatIgnoresInputsHasNoVisibleSecrets) {
  program_.compute = timer_.compute = [](const std::vector<float>&) { return 2016.0f; };
  KernelSampler sampler(kernel_, timer_, 0, 1);
  // Only set 0, for which this is the correct result.
  sampler.BeginCounting();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(TakeOne(&sampler, TimingMode::kCold, 0));
  const auto right = sampler.Verify();
  ASSERT_TRUE(right.has_value() && *right);
  EXPECT_EQ(sampler.verified(), 8);
  EXPECT_EQ(sampler.visible(), 0);
}

TEST_F(KernelSamplerTest, KeepsOutputsFromWholeRunExceptWarmUp) {
  constexpr size_t kWarmUp = 4, kRounds = 400;
  std::vector<int> kept_at(kRounds);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    timer_.requests.clear();
    KernelSampler sampler(kernel_, timer_, 0, seed);
    ASSERT_TRUE(TakeAll(&sampler, kRounds));
    for (size_t i = 0; i < kWarmUp; ++i) EXPECT_FALSE(timer_.requests[i].keep_outputs);
    for (size_t i = 0; i < kRounds; ++i) {
      kept_at[i] += timer_.requests[kWarmUp + i].keep_outputs ? 1 : 0;
    }
    EXPECT_TRUE(timer_.requests[kWarmUp + kRounds].keep_outputs) << "the warm replay";
    EXPECT_FALSE(timer_.requests.back().keep_outputs) << "the host replay";
    const auto right = sampler.Verify();
    ASSERT_TRUE(right.has_value() && *right);
    EXPECT_EQ(sampler.verified(), 9);
  }
  const auto between = [&](size_t begin, size_t end) {
    int sum = 0;
    for (size_t i = begin; i < end; ++i) sum += kept_at[i];
    return sum;
  };
  // Of 400, replay n is kept with probability 8 / n: 5.5 between 201 and 400.
  EXPECT_GT(between(200, 400), 20 * 3);
  EXPECT_LT(between(200, 400), 20 * 9);
  EXPECT_GT(between(380, 400), 0);
}

TEST_F(KernelSamplerTest, CopiesOnlyVerifiedOutputsOfGuaranteedReplays) {
  constexpr size_t kWarmUp = 4, kLeast = 40, kRounds = 60;
  std::set<size_t> places;
  int later = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    timer_.requests.clear();
    KernelSampler sampler(kernel_, timer_, 0, seed, kLeast);
    ASSERT_TRUE(TakeAll(&sampler, kRounds));
    int among_least = 0;
    for (size_t i = 0; i < kRounds; ++i) {
      if (!timer_.requests[kWarmUp + i].keep_outputs) continue;
      (i < kLeast ? among_least : later) += 1;
      places.insert(i);
    }
    EXPECT_EQ(among_least, 8);
    const auto right = sampler.Verify();
    ASSERT_TRUE(right.has_value() && *right);
    EXPECT_EQ(sampler.verified(), 9);
  }
  EXPECT_EQ(places.size(), kRounds) << "every replay may be checked";
  EXPECT_NEAR(later / 40.0, 3.2, 1.5);  // 8 ln(60 / 40)
}

TEST_F(KernelSamplerTest, RejectsKernelThatBecomesWrongLater) {
  // Correct in its first hundred replays, and in the last replay, which is always checked.
  int calls = 0;
  timer_.compute = [&](const std::vector<float>& x) {
    ++calls;
    return calls < 100 || calls > 404 ? Sum(x) : 0.0f;
  };
  KernelSampler sampler(kernel_, timer_, 0, 1);
  ASSERT_TRUE(TakeAll(&sampler, 400));
  const auto right = sampler.Verify();
  ASSERT_TRUE(right.has_value());
  EXPECT_FALSE(*right);
}

TEST_F(KernelSamplerTest, TimerFindingsBecomeTheProblem) {
  records::Finding finding;
  finding.code = "out_of_bounds";
  finding.message = "beyond its end";
  timer_.answer.findings = {finding};
  KernelSampler sampler(kernel_, timer_, 0, 1);
  const auto taken = sampler.Take(TimingMode::kCold, 0, 1);
  ASSERT_TRUE(taken.has_value());
  EXPECT_TRUE(taken->empty());
  ASSERT_TRUE(sampler.problem().has_value());
  EXPECT_EQ(sampler.problem()->code, "out_of_bounds");

  timer_.answer.findings.clear();
  timer_.answer.unsupported = "a grid that waits for itself";
  KernelSampler other(kernel_, timer_, 0, 1);
  ASSERT_TRUE(other.Take(TimingMode::kWarm, 0, 1).has_value());
  ASSERT_TRUE(other.problem().has_value());
  EXPECT_EQ(other.problem()->code, "unsupported");
}

TEST_F(KernelSamplerTest, FailedReExecutionIsAProblem) {
  KernelSampler sampler(kernel_, timer_, 0, 1);
  ASSERT_TRUE(TakeAll(&sampler, 10));
  program_.completes = false;
  const auto right = sampler.Verify();
  ASSERT_TRUE(right.has_value());
  EXPECT_FALSE(*right);
  EXPECT_EQ(sampler.problem()->code, "wrong_timed_result");
}

TEST_F(KernelSamplerTest, DependsOnAllDistinguishesFullFromHalfSum) {
  const auto all = DependsOnAll(kernel_, 1);
  ASSERT_TRUE(all.has_value());
  EXPECT_TRUE(*all);
  program_.compute = [](const std::vector<float>& x) {
    return Sum(std::vector<float>(x.begin(), x.begin() + kElements / 2));
  };
  const auto half = DependsOnAll(kernel_, 1);
  ASSERT_TRUE(half.has_value());
  EXPECT_FALSE(*half);
  program_.compute = Sum;
  program_.completes = false;
  const auto broken = DependsOnAll(kernel_, 1);
  ASSERT_TRUE(broken.has_value());
  EXPECT_FALSE(*broken);
}

}  // namespace
}  // namespace cupel::assay
