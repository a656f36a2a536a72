// Plans on a real GPU. Skipped if there is none.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/program.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include "gpu/faults.h"
#include "gpu/surroundings.h"
#include "gpu/testing.h"

namespace cupel::gpu {
namespace {

class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto driver = OpenDriver();
    if (!driver) GTEST_SKIP() << driver.error().message;
    auto device = Device::Open(*driver, 0);
    if (!device) GTEST_SKIP() << device.error().message;
    device_ = std::move(*device);
    image_.ptx = std::string(kHead) + kKernels;
  }

  Result<engine::Run> Execute(engine::Program& program, const plan::Plan& plan) {
    const auto bytes = std::as_bytes(std::span(x_));
    const std::span<const std::byte> arguments[] = {bytes};
    return program.Execute(plan, arguments, {});
  }

  /// The first words of y after a run.
  std::array<uint64_t, 3> See(const char* kernel, bool vary, uint64_t seed) {
    const ReplayOptions how{std::chrono::milliseconds(1000), {{"counter"}}, vary};
    std::array<uint64_t, 3> seen{};
    auto program = LoadProgram(*device_, build::OneImage(image_), how);
    EXPECT_TRUE(program.has_value()) << program.error().message;
    if (!program) return seen;
    const auto bytes = std::as_bytes(std::span(x_));
    const std::span<const std::byte> arguments[] = {bytes};
    engine::RunOptions options;
    options.seed = seed;
    auto run = (*program)->Execute(Launching(kernel), arguments, options);
    EXPECT_TRUE(run.has_value() && run->completed);
    if (run && run->completed) std::memcpy(seen.data(), run->outputs[0].bytes.data(), sizeof seen);
    return seen;
  }

  Result<std::unique_ptr<engine::Program>> Load() {
    return LoadProgram(*device_, build::OneImage(image_),
                       {std::chrono::milliseconds(1000), {{"counter"}}});
  }

  std::unique_ptr<Device> device_;
  build::Image image_;
  std::vector<float> x_ = std::vector<float>(100, 2.5f);
};

TEST_F(ProgramTest, LaunchesAndReadsOutputs) {
  auto program = Load();
  ASSERT_TRUE(program.has_value()) << program.error().message;
  auto run = Execute(**program, Launching("add_one"));
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ASSERT_TRUE(run->completed) << (run->findings.empty() ? "" : run->findings[0].message);
  ASSERT_EQ(run->outputs.size(), 1u);
  float y = 0;
  std::memcpy(&y, run->outputs[0].bytes.data() + 396, 4);
  EXPECT_EQ(y, 3.5f);
}

TEST_F(ProgramTest, SeedShiftsTheDate) {
  const auto date_of = [&](bool vary, uint64_t seed) { return See("date", vary, seed)[0]; };
  constexpr uint64_t kDay = 86'400'000'000'000;
  const uint64_t now = date_of(false, 1);
  const auto shifted = [&](uint64_t seed) {
    return static_cast<int64_t>(date_of(true, seed) - now) - DrawSurroundings(seed).date_shift;
  };
  EXPECT_LT(std::abs(shifted(1)), static_cast<int64_t>(kDay));
  EXPECT_LT(std::abs(shifted(2)), static_cast<int64_t>(kDay));
  EXPECT_LT(date_of(false, 2) - now, kDay);
}

TEST_F(ProgramTest, SeedChangesAddressesAndMultiprocessors) {
  using Places = std::set<uint64_t>;
  Places inputs, outputs, distances, processors;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::array<uint64_t, 3> seen = See("whereabouts", true, seed);
    const std::array<uint64_t, 3> again = See("whereabouts", true, seed);
    EXPECT_EQ(seen[1] - seen[0], again[1] - again[0]);
    inputs.insert(seen[0] % (uint64_t{1} << 25));
    outputs.insert(seen[1] % (uint64_t{1} << 25));
    distances.insert(seen[1] - seen[0]);
    processors.insert(seen[2]);
  }
  for (const Places& places : {inputs, outputs, distances, processors}) {
    EXPECT_GE(places.size(), 6u);
  }
  // For timed calls buffers are placed close together.
  const std::array<uint64_t, 3> timed = See("whereabouts", false, 1);
  EXPECT_EQ(timed[1] - timed[0], 4096u + 512u);
}

// out[0] = state + 1.
std::string WithState(const char* state) {
  return std::string(kHead) + ".visible .global .align 4 .u32 state = " + state + R"(;
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<2>; .reg .b64 %d;
  ld.param.u64 %d, [out]; ld.global.u32 %r0, [state]; add.u32 %r1, %r0, 1;
  st.global.u32 [%d], %r1; st.global.u32 [state], %r1; ret;
}
)";
}

TEST_F(ProgramTest, EqualNamesMeanTheKernelAndVariableOfTheImage) {
  build::Images images;
  for (const char* state : {"10", "20"}) {
    image_.ptx = WithState(state);
    images.push_back(std::make_shared<const build::Image>(image_));
  }
  auto program =
      LoadProgram(*device_, images, {std::chrono::milliseconds(1000), {{"state"}, {"state"}}});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  plan::Plan plan;
  plan.buffers = {{plan::BufferKind::kTemporary, 8, -1, {}},
                  {plan::BufferKind::kSymbol, 4, -1, "state", 1}};
  for (const int image : {0, 1}) {
    plan::Launch launch;
    launch.kernel = "k";
    launch.image = image;
    launch.parameters = std::string(8, '\0');
    launch.relocations = {{0, {0, 4 * image}}};
    plan.nodes.push_back({launch, {}});
  }
  plan.outputs = {{{0, 0}, DType::kI32, {2}, {1}}};
  for (int round = 0; round < 2; ++round) {
    auto run = (*program)->Execute(plan, {}, {});
    ASSERT_TRUE(run.has_value()) << run.error().message;
    ASSERT_TRUE(run->completed);
    std::array<int, 2> seen{};
    std::memcpy(seen.data(), run->outputs[0].bytes.data(), sizeof seen);
    EXPECT_EQ(seen, (std::array<int, 2>{11, 21}));
    // A warning for the variable of image 0; the plan names that of image 1.
    ASSERT_EQ(run->findings.size(), 1u);
    EXPECT_EQ(run->findings[0].code, "device_state");
  }
}

TEST_F(ProgramTest, UnwrittenOutputIsPoison) {
  auto program = Load();
  ASSERT_TRUE(program.has_value()) << program.error().message;
  auto run = Execute(**program, Launching("add_one", 50));
  ASSERT_TRUE(run.has_value() && run->completed);
  float y = 0;
  std::memcpy(&y, run->outputs[0].bytes.data() + 396, 4);
  EXPECT_TRUE(std::isnan(y));
}

TEST_F(ProgramTest, DetectsWriteOutsideABuffer) {
  auto program = Load();
  ASSERT_TRUE(program.has_value()) << program.error().message;
  auto run = Execute(**program, Launching("add_one", 101));
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ASSERT_EQ(run->findings.size(), 1u);
  EXPECT_EQ(run->findings[0].code, "out_of_bounds");
  EXPECT_EQ(run->findings[0].where, "temporary 1 + 400 bytes, 0 past its end");
  EXPECT_FALSE(run->completed);
}

TEST_F(ProgramTest, ExecutesFillsCopiesAndConversions) {
  auto program = Load();
  ASSERT_TRUE(program.has_value()) << program.error().message;
  plan::Plan plan = Launching("add_one");
  plan.buffers.push_back({plan::BufferKind::kTemporary, 800, -1, {}});
  // Copies y as a transposed 10 x 10 matrix of float64.
  plan.nodes.push_back({plan::CopyView{{{2, 0}, DType::kF64, {10, 10}, {10, 1}},
                                       {{1, 0}, DType::kF32, {10, 10}, {1, 10}}},
                        {}});
  plan.nodes.push_back({plan::Fill{{1, 0}, std::string("\0\0\x80\x3f", 4), 50}, {}});
  plan.outputs = {{{2, 0}, DType::kF64, {100}, {1}}, {{1, 0}, DType::kF32, {100}, {1}}};
  for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i);
  auto run = Execute(**program, plan);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ASSERT_TRUE(run->completed);
  double d = 0;
  std::memcpy(&d, run->outputs[0].bytes.data() + 8 * 12, 8);
  EXPECT_EQ(d, 22.0);  // row 1, column 2 of the transposed: x[21] + 1
  float f = 0;
  std::memcpy(&f, run->outputs[1].bytes.data() + 4 * 49, 4);
  EXPECT_EQ(f, 1.0f);
  std::memcpy(&f, run->outputs[1].bytes.data() + 4 * 50, 4);
  EXPECT_EQ(f, 51.0f);
}

TEST_F(ProgramTest, ImpossibleLaunchesAreRefused) {
  auto program = Load();
  ASSERT_TRUE(program.has_value()) << program.error().message;
  plan::Plan plan = Launching("add_one");
  std::get<plan::Launch>(plan.nodes[0].work).block = {2048, 1, 1};
  auto run = Execute(**program, plan);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ASSERT_EQ(run->findings.size(), 1u);
  EXPECT_EQ(run->findings[0].code, "illegal_launch");
  // The context still works.
  EXPECT_TRUE(Execute(**program, Launching("add_one"))->completed);
}

TEST_F(ProgramTest, ReportsIllegalAccess) {
  auto program = Load();
  ASSERT_TRUE(program.has_value()) << program.error().message;
  auto run = Execute(**program, Launching("nowhere"));
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ASSERT_EQ(run->findings.size(), 1u);
  EXPECT_EQ(run->findings[0].code, "illegal_address");
  EXPECT_TRUE(EndsContext(run->findings[0]));
}

}  // namespace
}  // namespace cupel::gpu
