// SPDX-License-Identifier: Apache-2.0
#include "assay/measure.h"

#include <gtest/gtest.h>

#include <string>

namespace cupel::assay {
namespace {

using engine::TimingMode;

struct Call {
  char sampler;
  TimingMode mode;
  int set;
};

/// Always takes `us`. Adds each call to a log that all samplers share.
class FakeSampler : public Sampler {
 public:
  FakeSampler(char letter, double us, std::vector<Call>* log)
      : letter_(letter), us_(us), log_(log) {}
  std::string Name() const override { return std::string(1, letter_); }
  bool IsBaseline() const override { return false; }
  Result<std::vector<double>> Take(TimingMode mode, int set, int count) override {
    log_->push_back({letter_, mode, set});
    if (mode == TimingMode::kHost && !has_host) return std::vector<double>();
    if (mode == fails_in && ++seen_ > fails_after) {
      Refuse({"out_of_bounds", "beyond its end", ""});
      return std::vector<double>();
    }
    std::vector<double> times(static_cast<size_t>(count),
                              us_ + (replays_++ % 2 == 0 ? scatter : -scatter));
    if (mode == TimingMode::kCold && !counting_) times.assign(times.size(), kWarmingUp);
    return times;
  }
  void BeginCounting() override {
    counting_ = true;
    begun_at.push_back(log_->size());
  }

  static constexpr double kWarmingUp = 1e6;
  double scatter = 0;
  bool has_host = true;
  std::optional<TimingMode> fails_in;
  int fails_after = 0;
  std::vector<size_t> begun_at;  // positions in the log at which counting began

 private:
  char letter_;
  double us_;
  std::vector<Call>* log_;
  int seen_ = 0, replays_ = 0;
  bool counting_ = false;
};

class MeasureTest : public ::testing::Test {
 protected:
  MeasureTest() {
    options_.least = 8;
    options_.most = 40;
    options_.others = 3;
  }
  Result<Measured> Run() {
    Sampler* const samplers[] = {&a_, &b_, &c_};
    return Measure(
        samplers, [] { return Result<double>(kOverheadUs); }, kSets, options_,
        [&](int rounds) { looks_.push_back(rounds); });
  }
  /// The cold replays as "abccba…".
  std::string Order() const {
    std::string order;
    for (const Call& call : log_) order += call.mode == TimingMode::kCold ? call.sampler : '.';
    return order.substr(0, order.find('.'));
  }

  static constexpr double kOverheadUs = 1.5;
  static constexpr int kSets = 3;
  std::vector<Call> log_;
  FakeSampler a_{'a', 10, &log_}, b_{'b', 20, &log_}, c_{'c', 1, &log_};
  MeasureOptions options_;
  std::vector<int> looks_;
};

TEST_F(MeasureTest, ContinuesIfPlainCallsFail) {
  b_.has_host = false;
  const auto measured = Run();
  ASSERT_TRUE(measured) << measured.error().ToString();
  ASSERT_EQ(measured->samples.size(), 3u);
  EXPECT_TRUE(measured->samples[1].host.empty());
  EXPECT_EQ(measured->samples[1].warm.size(), 3u);
  EXPECT_EQ(measured->samples[2].host.size(), 3u);
}

TEST_F(MeasureTest, AlternatesDirectionOnTheSameInputs) {
  ASSERT_TRUE(Run().has_value());
  const std::string order = Order();
  ASSERT_GE(order.size(), 6u * 2 * kSets);
  for (size_t i = 0; i < order.size(); ++i) {
    ASSERT_EQ(order[i], "abccba"[i % 6]) << i;
    ASSERT_EQ(log_[i].set, static_cast<int>(i / 6) % kSets) << i;
  }
}

TEST_F(MeasureTest, DoesNotCountWarmUp) {
  const auto measured = Run();
  ASSERT_TRUE(measured.has_value());
  for (const FakeSampler* sampler : {&a_, &b_, &c_}) {
    ASSERT_EQ(sampler->begun_at.size(), 1u);
    EXPECT_GE(sampler->begun_at[0], 6u * kSets) << "before every set was seen";
    EXPECT_EQ(sampler->begun_at[0] % 6, 0u) << "within a pair of rounds";
    EXPECT_EQ(sampler->begun_at[0] + 3 * 8, Order().size()) << "not before the counted rounds";
  }
  for (const records::Samples& samples : measured->samples) {
    for (const double us : samples.cold) EXPECT_LT(us, FakeSampler::kWarmingUp / 2);
  }
}

TEST_F(MeasureTest, SubtractsOverheadFromDeviceTimesOnly) {
  const auto measured = Run();
  ASSERT_TRUE(measured.has_value());
  EXPECT_EQ(measured->overhead_us, kOverheadUs);
  ASSERT_EQ(measured->samples.size(), 3u);
  EXPECT_DOUBLE_EQ(measured->samples[1].cold[0], 20 - kOverheadUs);
  EXPECT_EQ(measured->samples[1].warm, std::vector<double>(3, 20 - kOverheadUs));
  EXPECT_EQ(measured->samples[1].host, std::vector<double>(3, 20));
  // Shorter than the overhead: still positive, so that ratios are defined.
  EXPECT_GT(measured->samples[2].cold[0], 0);
}

TEST_F(MeasureTest, StopsWhenIntervalsAreNarrow) {
  const auto measured = Run();
  ASSERT_TRUE(measured.has_value());
  EXPECT_EQ(measured->samples[0].cold.size(), 8u);
  EXPECT_EQ(looks_, std::vector<int>{8});
}

TEST_F(MeasureTest, StopsAtMaximumRounds) {
  b_.scatter = 5;
  const auto measured = Run();
  ASSERT_TRUE(measured.has_value());
  EXPECT_EQ(measured->samples[0].cold.size(), 40u);
  EXPECT_EQ(measured->samples[1].cold.size(), 40u);
  EXPECT_GT(looks_.size(), 1u);
}

TEST_F(MeasureTest, StopsAfterTimeLimit) {
  b_.scatter = 5;
  options_.most = 1'000'000'000;
  options_.seconds = 0.1;  // half of it for the warm-up
  const auto measured = Run();
  ASSERT_TRUE(measured.has_value());
  EXPECT_GE(measured->samples[0].cold.size(), 1u);
}

TEST_F(MeasureTest, TakesFewerWarmAndHostSamplesOfLongCalls) {
  FakeSampler minute('m', 60e6, &log_);
  Sampler* const samplers[] = {&minute};
  const auto measured =
      Measure(samplers, [] { return Result<double>(0.0); }, 1, options_, [](int) {});
  ASSERT_TRUE(measured.has_value());
  EXPECT_EQ(measured->samples[0].warm.size(), 1u);
  EXPECT_EQ(measured->samples[0].host.size(), 1u);
}

TEST_F(MeasureTest, StopsWhenASamplerFails) {
  const std::pair<TimingMode, int> failures[] = {{TimingMode::kCold, 0},
                                                 {TimingMode::kCold, 20},
                                                 {TimingMode::kWarm, 0},
                                                 {TimingMode::kHost, 0}};
  for (const auto& [mode, after] : failures) {
    log_.clear();
    b_ = FakeSampler('b', 20, &log_);
    b_.scatter = 5;
    b_.fails_in = mode;
    b_.fails_after = after;
    const auto measured = Run();
    ASSERT_TRUE(measured.has_value());
    EXPECT_TRUE(measured->samples.empty());
    ASSERT_TRUE(b_.problem().has_value());
    EXPECT_EQ(b_.problem()->code, "out_of_bounds");
    EXPECT_EQ(log_.back().sampler, 'b') << "the others must not be called afterwards";
  }
}

TEST_F(MeasureTest, ReturnsErrorOfTheClock) {
  Sampler* const samplers[] = {&a_};
  const auto measured = Measure(
      samplers, []() -> Result<double> { return Fail(ErrorCode::kInternal, "the clock stopped"); },
      1, options_, [](int) {});
  ASSERT_FALSE(measured.has_value());
  EXPECT_EQ(measured.error().message, "the clock stopped");
}

}  // namespace
}  // namespace cupel::assay
