// The engine with its worker process on a real GPU. Skipped if there is none.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/engine.h"

#include <gtest/gtest.h>

#include <cstring>

#include "gpu/testing.h"

namespace cupel::gpu {
namespace {

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engine = MakeGpuEngine({});
    if (!engine) GTEST_SKIP() << engine.error().message;
    engine_ = std::move(*engine);
    image_.ptx = std::string(kHead) + kKernels;
  }

  std::unique_ptr<engine::Program> Load() {
    auto program = engine_->Load(image_);
    EXPECT_TRUE(program.has_value()) << (program ? "" : program.error().message);
    return program ? std::move(*program) : nullptr;
  }
  engine::Run Execute(engine::Program& program, const plan::Plan& plan) {
    const std::span<const std::byte> arguments[] = {std::as_bytes(std::span(x_))};
    auto run = program.Execute(plan, arguments, {});
    EXPECT_TRUE(run.has_value()) << (run ? "" : run.error().message);
    return run.value_or(engine::Run{});
  }
  static void ExpectRight(const engine::Run& run) {
    ASSERT_TRUE(run.completed);
    ASSERT_EQ(run.outputs.size(), 1u);
    ASSERT_EQ(run.outputs[0].bytes.size(), 400u);
    float y = 0;
    std::memcpy(&y, run.outputs[0].bytes.data() + 396, 4);
    EXPECT_EQ(y, 3.5f);
  }

  std::unique_ptr<engine::Engine> engine_;
  build::Image image_;
  std::vector<float> x_ = std::vector<float>(100, 2.5f);
};

TEST_F(EngineTest, RunsSeveralPrograms) {
  EXPECT_EQ(engine_->Name(), "gpu");
  EXPECT_GT(engine_->Device().sm_count, 0);
  const auto a = Load(), b = Load();
  for (int i = 0; i < 3; ++i) {
    ExpectRight(Execute(*a, Launching("add_one")));
    ExpectRight(Execute(*b, Launching("add_one")));
  }
}

TEST_F(EngineTest, RecoversAfterFaults) {
  const auto good = Load(), bad = Load();
  ExpectRight(Execute(*good, Launching("add_one")));
  for (const auto& [kernel, code] :
       {std::pair("nowhere", "illegal_address"), std::pair("for_ever", "time_out")}) {
    const engine::Run run = Execute(*bad, Launching(kernel));
    ASSERT_EQ(run.findings.size(), 1u) << kernel;
    EXPECT_EQ(run.findings[0].code, code);
    EXPECT_FALSE(run.completed);
    ExpectRight(Execute(*good, Launching("add_one")));
    ExpectRight(Execute(*bad, Launching("add_one")));
  }
}

TEST_F(EngineTest, WorkerSurvivesAnInvalidImage) {
  const auto good = Load();
  image_.ptx = "nonsense";
  EXPECT_FALSE(engine_->Load(image_).has_value());
  ExpectRight(Execute(*good, Launching("add_one")));
}

TEST(Engine, ReportsMissingGpu) {
  EngineOptions options;
  options.ordinal = 4096;
  const auto engine = MakeGpuEngine(options);
  ASSERT_FALSE(engine.has_value());
  EXPECT_FALSE(engine.error().message.empty());
  EXPECT_FALSE(engine.error().remedy.empty());
}

}  // namespace
}  // namespace cupel::gpu
