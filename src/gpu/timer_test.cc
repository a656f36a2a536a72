// The timer on a real GPU. Skipped if there is none.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/timer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "gpu/blas.h"
#include "gpu/ceilings.h"
#include "gpu/cupti.h"
#include "gpu/testing.h"
#include "stats/robust.h"

namespace cupel::gpu {
namespace {

using engine::TimingMode;

class TimerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto driver = OpenDriver();
    if (!driver) GTEST_SKIP() << driver.error().message;
    auto device = Device::Open(*driver, 0);
    if (!device) GTEST_SKIP() << device.error().message;
    device_ = std::move(*device);
    auto clock = Clock::Start(*device_);
    ASSERT_TRUE(clock.has_value()) << clock.error().message;
    clock_ = std::move(*clock);
    if (auto nvml = Nvml::Open(device_->Uuid())) nvml_ = std::move(*nvml);
    build::Image image;
    image.ptx = std::string(kHead) + kKernels;
    auto program = LoadProgram(*device_, build::OneImage(image),
                               {std::chrono::milliseconds(1000), {{"counter"}}});
    ASSERT_TRUE(program.has_value()) << program.error().message;
    program_ = std::move(*program);
    for (int set = 0; set < 3; ++set) {
      values_.emplace_back(100, static_cast<float>(set));
    }
    for (const auto& values : values_) sets_.push_back({std::as_bytes(std::span(values))});
  }

  Result<std::unique_ptr<engine::Timer>> Make(std::span<const plan::Plan> plans) {
    std::vector<TimerEntrant> entrants;
    for (const plan::Plan& plan : plans) entrants.push_back({program_.get(), {&plan}});
    return MakeLocalTimer(*device_, *clock_, nvml_.get(), entrants, sets_);
  }

  static float At(const engine::Taken& taken, size_t index) {
    float value = 0;
    std::memcpy(&value, taken.outputs[0].bytes.data() + 4 * index, 4);
    return value;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<Nvml> nvml_;
  std::unique_ptr<GpuProgram> program_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<std::span<const std::byte>>> sets_;
};

TEST_F(TimerTest, TimedReplaysComputeEachSet) {
  const plan::Plan plans[] = {Launching("add_one")};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  ASSERT_EQ((*timer)->Sets(), 3);
  for (int set = 0; set < 3; ++set) {
    auto taken = (*timer)->Take({0, TimingMode::kCold, set, 3, {}, true});
    ASSERT_TRUE(taken.has_value()) << taken.error().message;
    ASSERT_TRUE(taken->findings.empty()) << taken->findings[0].message;
    ASSERT_EQ(taken->us.size(), 3u);
    EXPECT_EQ(At(*taken, 99), static_cast<float>(set) + 1);
    EXPECT_GT(taken->us[0], 0.2);
    EXPECT_LT(taken->us[0], 50);
  }
  auto findings = (*timer)->Finish();
  ASSERT_TRUE(findings.has_value()) << findings.error().message;
  EXPECT_TRUE(findings->empty()) << (*findings)[0].message;
}

TEST_F(TimerTest, CooperativeLaunchesAreTimed) {
  plan::Plan plans[] = {Launching("add_one")};
  std::get<plan::Launch>(plans[0].nodes[0].work).cooperative = true;
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  for (const TimingMode mode : {TimingMode::kCold, TimingMode::kWarm, TimingMode::kHost}) {
    auto taken = (*timer)->Take({0, mode, 1, 2, {}, true});
    ASSERT_TRUE(taken.has_value()) << taken.error().message;
    ASSERT_TRUE(taken->findings.empty()) << taken->findings[0].message;
    EXPECT_EQ(At(*taken, 99), 2);
  }
}

// The refused launch has more blocks than fit at once.
TEST_F(TimerTest, ReportsRefusedLaunchAndTimesTheOthers) {
  plan::Plan plans[] = {Launching("add_one"), Launching("add_one")};
  auto& launch = std::get<plan::Launch>(plans[0].nodes[0].work);
  launch.cooperative = true;
  launch.grid.x = 1u << 20;
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  auto refused = (*timer)->Take({0, TimingMode::kCold, 0, 1, {}, false});
  ASSERT_TRUE(refused.has_value()) << refused.error().message;
  EXPECT_FALSE(refused->findings.empty());
  auto taken = (*timer)->Take({1, TimingMode::kCold, 0, 1, {}, true});
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  EXPECT_TRUE(taken->findings.empty());
}

TEST_F(TimerTest, ChangeAppliesToItsReplayOnly) {
  const plan::Plan plans[] = {Launching("add_one")};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  const float seven = 7;
  engine::Change change{0, 20, std::string(4, '\0')};
  std::memcpy(change.bytes.data(), &seven, 4);
  auto changed = (*timer)->Take({0, TimingMode::kCold, 1, 1, {change}, true});
  ASSERT_TRUE(changed.has_value()) << changed.error().message;
  EXPECT_EQ(At(*changed, 5), 8);
  EXPECT_EQ(At(*changed, 6), 2);
  auto usual = (*timer)->Take({0, TimingMode::kWarm, 1, 2, {}, true});
  ASSERT_TRUE(usual.has_value()) << usual.error().message;
  EXPECT_EQ(At(*usual, 5), 2);
  EXPECT_TRUE((*timer)->Finish()->empty());
}

/// Adds one to each of its 100 numbers.
plan::Plan InPlace() {
  plan::Plan plan = Launching("add_one");
  plan.buffers.resize(1);
  plan.buffers[0].changes = true;
  std::get<plan::Launch>(plan.nodes[0].work).relocations = {{0, {0, 0}}, {8, {0, 0}}};
  plan.outputs[0].address = {0, 0};
  return plan;
}

// Without restoring the argument, the second replay would add two.
TEST_F(TimerTest, ChangedArgumentsAreRestoredBeforeEachReplay) {
  const plan::Plan plans[] = {InPlace(), InPlace()};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  const float seven = 7;
  engine::Change change{0, 20, std::string(4, '\0')};
  std::memcpy(change.bytes.data(), &seven, 4);
  for (const TimingMode mode : {TimingMode::kCold, TimingMode::kWarm, TimingMode::kHost}) {
    for (const size_t entrant : {0, 1}) {
      auto taken = (*timer)->Take({entrant, mode, 2, 3, {change}, true});
      ASSERT_TRUE(taken.has_value()) << taken.error().message;
      ASSERT_TRUE(taken->findings.empty()) << taken->findings[0].message;
      EXPECT_EQ(taken->us.size(), 3u);
      EXPECT_EQ(At(*taken, 5), 8);
      EXPECT_EQ(At(*taken, 6), 3);
      auto usual = (*timer)->Take({entrant, mode, 2, 1, {}, true});
      ASSERT_TRUE(usual.has_value()) << usual.error().message;
      EXPECT_EQ(At(*usual, 5), 3);
    }
  }
  EXPECT_TRUE((*timer)->Finish()->empty());
  auto use = (*timer)->MeasureEnergy(0, 0.1);
  ASSERT_FALSE(use.has_value());
  EXPECT_EQ(use.error().code, ErrorCode::kUnsupported);
}

// A kernel that writes behind an argument which it may change.
TEST_F(TimerTest, DetectsStrayWritesBesideChangedArguments) {
  plan::Plan plan = InPlace();
  const uint32_t more = 101;
  std::memcpy(std::get<plan::Launch>(plan.nodes[0].work).parameters.data() + 16, &more, 4);
  const plan::Plan plans[] = {plan};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  auto taken = (*timer)->Take({0, TimingMode::kCold, 0, 1, {}, true});
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  ASSERT_FALSE(taken->findings.empty());
  EXPECT_EQ(taken->findings[0].code, "out_of_bounds");
}

// A kernel could keep an answer in the argument of the next set, which it may change when its turn
// comes: one buffer of 400 bytes between two red zones is 8704 bytes.
TEST_F(TimerTest, DetectsWritesToChangedArgumentsOfOtherSets) {
  plan::Plan plan = InPlace();
  auto& launch = std::get<plan::Launch>(plan.nodes[0].work);
  launch.kernel = "hide";
  const uint32_t next_set = 4096 + 512 + 4096;
  std::memcpy(launch.parameters.data() + 16, &next_set, 4);
  const plan::Plan plans[] = {plan};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  auto taken = (*timer)->Take({0, TimingMode::kCold, 0, 1, {}, true});
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  ASSERT_FALSE(taken->findings.empty());
  EXPECT_EQ(taken->findings[0].code, "out_of_bounds");
}

TEST_F(TimerTest, UnwrittenOutputIsPoison) {
  const plan::Plan plans[] = {Launching("add_one"), Launching("add_one", 50)};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  ASSERT_TRUE((*timer)->Take({0, TimingMode::kCold, 0, 1, {}, true}).has_value());
  auto half = (*timer)->Take({1, TimingMode::kCold, 0, 1, {}, true});
  ASSERT_TRUE(half.has_value()) << half.error().message;
  EXPECT_EQ(At(*half, 49), 1);
  EXPECT_NE(At(*half, 50), 1);
}

TEST_F(TimerTest, FinishDetectsStrayWrite) {
  const plan::Plan plans[] = {Launching("add_one", 101)};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  ASSERT_TRUE((*timer)->Take({0, TimingMode::kCold, 0, 1, {}, false}).has_value());
  auto findings = (*timer)->Finish();
  ASSERT_TRUE(findings.has_value()) << findings.error().message;
  ASSERT_FALSE(findings->empty());
  EXPECT_EQ((*findings)[0].code, "out_of_bounds");
}

// The kernel writes far behind the last red zone, but within the memory that the driver has mapped.
TEST_F(TimerTest, DetectsWriteToUnusedMemoryIfOutputsAreKept) {
  const plan::Plan plans[] = {Launching("hide", 1 << 20)};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  auto taken = (*timer)->Take({0, TimingMode::kCold, 0, 1, {}, true});
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  ASSERT_FALSE(taken->findings.empty());
  EXPECT_EQ(taken->findings[0].code, "out_of_bounds");
}

TEST_F(TimerTest, ReportsFaultAsFinding) {
  const plan::Plan plans[] = {Launching("nowhere")};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  auto taken = (*timer)->Take({0, TimingMode::kCold, 0, 1, {}, false});
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  ASSERT_FALSE(taken->findings.empty());
  EXPECT_EQ(taken->findings[0].code, "illegal_address");
}

// Two independent kernels take the time of one. Two ordered kernels take the time of both.
TEST_F(TimerTest, GraphsKeepOnlyThePlansDependencies) {
  plan::Plan apart = Launching("busy", 20000), ordered = apart;
  apart.nodes.push_back(apart.nodes[0]);
  ordered.nodes.push_back(ordered.nodes[0]);
  ordered.nodes[1].after = {0};
  const plan::Plan plans[] = {apart, ordered};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  // An idle GPU raises its clocks first.
  ASSERT_TRUE((*timer)->Take({0, TimingMode::kCold, 0, 200, {}, false}).has_value());
  auto together = (*timer)->Take({0, TimingMode::kCold, 0, 9, {}, false});
  auto behind = (*timer)->Take({1, TimingMode::kCold, 0, 9, {}, false});
  ASSERT_TRUE(together.has_value() && behind.has_value());
  EXPECT_GT(stats::Median(behind->us), 1.6 * stats::Median(together->us));
}

TEST_F(TimerTest, MeasuresEnergyIfTheGpuCountsIt) {
  const plan::Plan plans[] = {Launching("add_one")};
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  auto use = (*timer)->MeasureEnergy(0, 0.5);
  if (!use) GTEST_SKIP() << use.error().message;
  EXPECT_GT(use->watts, 10);
  EXPECT_GT(use->calls, 1000);
}

TEST_F(TimerTest, ReadsTheGpuState) {
  if (!nvml_) GTEST_SKIP() << "no NVML";
  const records::GpuState state = nvml_->State();
  EXPECT_GT(state.sm_mhz, 100);
  EXPECT_GT(state.power_w, 5);
}

TEST_F(TimerTest, CeilingsArePlausible) {
  auto ceilings = MeasureCeilings(*device_, *clock_);
  ASSERT_TRUE(ceilings.has_value()) << ceilings.error().message;
  EXPECT_GT(ceilings->read_bytes, 1e11);
  EXPECT_GT(ceilings->copy_bytes, 1e11);
  EXPECT_GT(ceilings->fp32_flops, 1e12);
  EXPECT_LT(ceilings->launch_us, 20);
  printf(
      "overhead %.3f us; read %.0f GB/s, copy %.0f GB/s, fp32 %.1f, tf32 %.0f, bf16 %.0f "
      "TFLOP/s, launch %.2f us\n",
      *clock_->Overhead(), ceilings->read_bytes / 1e9, ceilings->copy_bytes / 1e9,
      ceilings->fp32_flops / 1e12, ceilings->tf32_flops / 1e12, ceilings->bf16_flops / 1e12,
      ceilings->launch_us);
}

// Compares with CUPTI's hardware timestamps of the same kernels. CUPTI runs afterwards, because it
// slows launches down.
TEST_F(TimerTest, AgreesWithCupti) {
  std::vector<plan::Plan> plans;
  for (const uint32_t loops : {2000u, 5000u, 20000u, 100000u}) {
    plans.push_back(Launching("busy", loops));
  }
  auto timer = Make(plans);
  ASSERT_TRUE(timer.has_value()) << timer.error().message;
  std::vector<double> mine, overhead;
  for (size_t i = 0; i < plans.size(); ++i) {
    auto taken = (*timer)->Take({i, TimingMode::kCold, 0, 31, {}, false});
    ASSERT_TRUE(taken.has_value() && taken->us.size() == 31);
    mine.push_back(stats::Median(taken->us));
    overhead.push_back(*clock_->Overhead());
  }
  auto cupti = KernelClock::Start();
  if (!cupti) GTEST_SKIP() << cupti.error().message;
  for (size_t i = 0; i < plans.size(); ++i) {
    ASSERT_TRUE((*cupti)->Begin().has_value());
    ASSERT_TRUE((*timer)->Take({i, TimingMode::kCold, 0, 31, {}, false}).has_value());
    auto times = (*cupti)->End();
    ASSERT_TRUE(times.has_value()) << times.error().message;
    std::vector<double> durations;
    for (const KernelTime& time : *times) {
      if (time.name != "busy") continue;
      durations.push_back(static_cast<double>(time.end_ns - time.start_ns) / 1e3);
    }
    ASSERT_GE(durations.size(), 31u);
    const double theirs = stats::Median(durations), ours = mine[i] - overhead[i];
    printf("CUPTI %8.3f us, cupel %8.3f us: %+.2f %%\n", theirs, ours, 100 * (ours / theirs - 1));
    if (theirs > 20) {
      EXPECT_NEAR(ours / theirs, 1, 0.03);
    }
  }
}

// y = A x with small integers, as one product, a batch with strides and a batch of pointers.
TEST_F(TimerTest, ComputesCublasProducts) {
  if (auto blas = device_->blas(); !blas) GTEST_SKIP() << blas.error().message;
  plan::Plan plan;
  plan.buffers = {{plan::BufferKind::kArgument, 400, 0, {}},
                  {plan::BufferKind::kTemporary, 400, -1, {}}};
  plan.outputs = {{{1, 0}, DType::kF32, {100}, {1}}};
  plan::Gemm gemm;
  gemm.m = gemm.n = gemm.k = gemm.lda = gemm.ldb = gemm.ldc = 5;
  gemm.a = {0, 0}, gemm.b = {0, 100}, gemm.c = {1, 0};
  plan::Gemm strided = gemm;
  strided.batch = 2;
  strided.stride_a = strided.stride_b = strided.stride_c = 25;
  plan::Gemm pointers = gemm;
  pointers.pointers = {{plan::Address{0, 0}, {0, 100}, {1, 0}}, {{{0, 100}, {0, 200}, {1, 100}}}};
  for (float& value : values_[1]) value = static_cast<float>(&value - values_[1].data() + 1);
  for (const plan::Gemm& product : {gemm, strided, pointers}) {
    plan.nodes = {{product, {}}};
    const plan::Plan plans[] = {plan};
    auto timer = Make(plans);
    ASSERT_TRUE(timer.has_value()) << timer.error().message;
    auto taken = (*timer)->Take({0, TimingMode::kCold, 1, 2, {}, true});
    ASSERT_TRUE(taken.has_value()) << taken.error().message;
    ASSERT_TRUE(taken->findings.empty() && taken->unsupported.empty()) << taken->unsupported;
    double wanted = 0;  // C[0, 0] = sum over k of A[0, k] B[k, 0], column-major
    for (size_t k = 0; k < 5; ++k) wanted += values_[1][5 * k] * values_[1][25 + k];
    EXPECT_EQ(At(*taken, 0), wanted);
    wanted = 0;
    for (size_t k = 0; k < 5; ++k) wanted += values_[1][25 + 5 * k] * values_[1][50 + k];
    if (product.batch > 1 || !product.pointers.empty()) {
      EXPECT_EQ(At(*taken, 25), wanted);
    }
  }
}

}  // namespace
}  // namespace cupel::gpu
