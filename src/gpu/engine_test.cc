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
    auto program = engine_->Load(build::OneImage(image_));
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
  EXPECT_FALSE(engine_->Load(build::OneImage(image_)).has_value());
  ExpectRight(Execute(*good, Launching("add_one")));
}

// One thread copies 64 floats of x from element 64 on with a tensor map of 100 elements.
constexpr const char* kHopper = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry tile(.param .align 64 .b8 map[128], .param .u64 y) {
  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<6>; .reg .f32 %f;
  .shared .align 128 .b8 data[256]; .shared .align 8 .b64 bar;
  mov.u32 %r1, bar; mov.u32 %r2, data; mov.u32 %r3, 64; mov.b64 %d1, map; cvta.param.u64 %d1, %d1;
  mbarrier.init.shared::cta.b64 [%r1], 1;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared::cta.b64 %d2, [%r1], 256;
  cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes
    [%r2], [%d1, {%r3}], [%r1];
W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%r1], 0; @!%p bra W;
  ld.param.u64 %d3, [y]; mov.u32 %r4, 0;
L: ld.shared.f32 %f, [%r2]; st.global.f32 [%d3], %f;
  add.u32 %r2, %r2, 4; add.u64 %d3, %d3, 4; add.u32 %r4, %r4, 1;
  setp.lt.u32 %p, %r4, 64; @%p bra L; ret;
}
.visible .entry rank(.param .u64 y) {
  .reg .b32 %r<3>; .reg .b64 %d<3>; .reg .f32 %f;
  mov.u32 %r1, %cluster_ctarank; cvt.rn.f32.u32 %f, %r1; mov.u32 %r2, %ctaid.x;
  ld.param.u64 %d1, [y]; mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2;
  st.global.f32 [%d1], %f; ret;
}
)";

std::vector<float> FloatsOf(const engine::Run& run) {
  std::vector<float> floats;
  for (const records::Finding& finding : run.findings) {
    ADD_FAILURE() << finding.code << ": " << finding.message;
  }
  EXPECT_EQ(run.unsupported, "");
  if (run.outputs.size() != 1) return floats;
  floats.resize(run.outputs[0].bytes.size() / sizeof(float));
  std::memcpy(floats.data(), run.outputs[0].bytes.data(), floats.size() * sizeof(float));
  return floats;
}

TEST_F(EngineTest, EncodesTensorMaps) {
  if (engine_->Device().major < 9) GTEST_SKIP() << "needs compute capability 9.0";
  image_.ptx = kHopper;
  x_[99] = 7;
  plan::Plan plan = Launching("tile");
  auto& launch = std::get<plan::Launch>(plan.nodes[0].work);
  launch.grid = launch.block = {};
  launch.parameters = std::string(136, '\0');
  launch.relocations = {{128, {1, 0}}};
  plan::TensorMap map;
  map.type = plan::TensorMapType::kF32;
  map.dims = {100};
  map.box = {64};
  map.element_strides = {1};
  launch.tensor_maps = {{0, {0, 0}, map}};
  const auto program = Load();
  ASSERT_NE(program, nullptr);
  const std::vector<float> y = FloatsOf(Execute(*program, plan));
  ASSERT_EQ(y.size(), 100u);
  EXPECT_EQ(y[0], 2.5f);
  EXPECT_EQ(y[35], 7.0f);
  EXPECT_EQ(y[36], 0.0f);  // outside the tensor
}

TEST_F(EngineTest, LaunchesClusters) {
  if (engine_->Device().major < 9) GTEST_SKIP() << "needs compute capability 9.0";
  image_.ptx = kHopper;
  plan::Plan plan = Launching("rank");
  auto& launch = std::get<plan::Launch>(plan.nodes[0].work);
  launch.grid = {32, 1, 1};
  launch.block = {};
  launch.cluster = {16, 1, 1};
  launch.parameters = std::string(8, '\0');
  launch.relocations = {{0, {1, 0}}};
  const auto program = Load();
  ASSERT_NE(program, nullptr);
  const std::vector<float> y = FloatsOf(Execute(*program, plan));
  ASSERT_EQ(y.size(), 100u);
  EXPECT_EQ(y[15], 15.0f);
  EXPECT_EQ(y[16], 0.0f);
  EXPECT_EQ(y[31], 15.0f);
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
