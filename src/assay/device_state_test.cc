// SPDX-License-Identifier: Apache-2.0
#include "assay/device_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "engine/state.h"

namespace cupel::assay {
namespace {

/// y[i] = x[i] + 1, with optional faults.
class Memory : public engine::Program, public engine::StateKeeper {
 public:
  Result<engine::Run> Execute(const plan::Plan&, std::span<const std::span<const std::byte>> args,
                              const engine::RunOptions&) override {
    if (crowded) return Fail(ErrorCode::kBusy, "no memory");
    std::vector<float> x(args[0].size() / sizeof(float));
    std::memcpy(x.data(), args[0].data(), args[0].size());
    std::vector<float> y = x;
    for (float& v : y) v += 1;
    float added = 0;
    if (args.size() > 1) std::memcpy(&added, args[1].data(), sizeof added);
    for (float& v : y) v += added;
    if (caches && key == x[0] && kept.size() == y.size()) y = kept;
    if (caches_by_first && whole == x && kept.size() == y.size()) y = kept;
    whole = x;
    if (counts && calls > 100) y[3] = 0;
    ++calls;
    key = x[0];
    kept = y;
    engine::Run run;
    run.completed = true;
    engine::OutputTensor& output = run.outputs.emplace_back();
    output.shape = {static_cast<int64_t>(y.size())};
    output.bytes.resize(y.size() * sizeof(float));
    std::memcpy(output.bytes.data(), y.data(), output.bytes.size());
    ++executed;
    return run;
  }
  void ForgetState() override {
    kept.clear();
    whole.clear();
    calls = 0;
  }
  void ScrambleState(uint64_t) override {
    kept.assign(kept.size(), 1e9f);
    calls = 1'000'000'000;
  }
  bool caches = false, caches_by_first = false, counts = false, crowded = false;
  std::vector<float> whole;
  int calls = 0, executed = 0;
  float key = 0;
  std::vector<float> kept;
};

class DeviceState : public ::testing::Test {
 protected:
  DeviceState() : values_(512) {
    std::iota(values_.begin(), values_.end(), 1.f);
    task::Tensor x;
    x.shape = {512};
    x.strides = {1};
    x.storage = std::as_bytes(std::span(values_));
    case_.args.push_back({x});
    task::Output& output = case_.outputs.emplace_back();
    output.shape = {512};
    output.error_scale = 1e-6;
    setting_.id = "single-0";
    context_.setting = &setting_;
    context_.loaded = &loaded_;
    records::Finding finding;
    finding.code = "device_state";
    finding.where = "kept";
    report_.findings.push_back(finding);
  }
  bool CheckStateless() {
    const auto stateless = IsStateless(context_, {}, case_, report_);
    EXPECT_TRUE(stateless);
    return *stateless;
  }
  std::vector<float> values_;
  task::Case case_;
  task::Setting setting_;
  SettingContext context_;
  Memory program_;
  LoadedImages loaded_{program_};
  records::SettingReport report_;
};

TEST_F(DeviceState, ChangesFewRandomElements) {
  Random one(1), two(2);
  const auto first = ManyChanged(case_.args, one), second = ManyChanged(case_.args, two);
  EXPECT_NE(first, second);
  const auto* changed = reinterpret_cast<const float*>(first[0].data());
  int differ = 0;
  for (size_t i = 0; i < values_.size(); ++i) differ += changed[i] != values_[i] ? 1 : 0;
  EXPECT_GE(differ, 1);
  EXPECT_LE(differ, 8);
}

TEST_F(DeviceState, AcceptsScratchVariable) {
  EXPECT_TRUE(CheckStateless());
  EXPECT_EQ(report_.status, records::SettingStatus::kNotRun);
}

TEST_F(DeviceState, RunsNothingWithoutState) {
  report_.findings.clear();
  program_.caches = true;
  EXPECT_TRUE(CheckStateless());
  EXPECT_EQ(program_.executed, 0);
}

TEST_F(DeviceState, BusyGpuIsAnErrorAndNotAFailure) {
  program_.crowded = true;
  const auto stateless = IsStateless(context_, {}, case_, report_);
  ASSERT_FALSE(stateless);
  EXPECT_EQ(stateless.error().code, ErrorCode::kBusy);
  EXPECT_EQ(report_.status, records::SettingStatus::kNotRun);
}

TEST_F(DeviceState, RejectsResultFromEarlierCall) {
  program_.caches = true;
  EXPECT_FALSE(CheckStateless());
  EXPECT_EQ(report_.status, records::SettingStatus::kFailed);
  ASSERT_EQ(report_.trials.size(), 1u);
  EXPECT_EQ(report_.trials[0].kind, "state");
  EXPECT_EQ(report_.trials[0].outputs[0].code, "device_state");
  EXPECT_NE(report_.trials[0].outputs[0].message.find("variables kept"), std::string::npos);
}

TEST_F(DeviceState, RejectsCacheKeyedByOneArgument) {
  case_.args.push_back(case_.args[0]);
  std::vector<float> second(512, 2.f);
  std::iota(second.begin(), second.end(), 5.f);
  std::get<task::Tensor>(case_.args[1].data).storage = std::as_bytes(std::span(second));
  program_.caches_by_first = true;
  EXPECT_FALSE(CheckStateless());
}

TEST_F(DeviceState, RejectsDependenceOnCallCounter) {
  program_.counts = true;
  EXPECT_FALSE(CheckStateless());
}

}  // namespace
}  // namespace cupel::assay
