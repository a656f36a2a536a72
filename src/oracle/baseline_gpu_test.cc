// Tests baselines on a real GPU with a real PyTorch. Reported as skipped if either is missing.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "oracle/baseline.h"
#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;
using task::Direction;
using task::Task;
using ::testing::HasSubstr;
using Mode = Baselines::Mode;

constexpr char kFlush[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry flush(.param .u64 data, .param .u64 bytes, .param .u64 word) {
  .reg .pred %p; .reg .b32 %r<12>; .reg .b64 %d<8>;
  ld.param.u64 %d1, [data]; ld.param.u64 %d2, [bytes]; ld.param.u64 %d3, [word];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
  mad.lo.u32 %r5, %r1, %r2, %r3; mul.wide.u32 %d4, %r5, 16;
  mul.lo.u32 %r6, %r4, %r2; mul.wide.u32 %d5, %r6, 16; mov.u32 %r7, 0;
LOOP:
  add.u64 %d6, %d4, 16; setp.gt.u64 %p, %d6, %d2; @%p bra DONE;
  add.u64 %d7, %d1, %d4; ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%d7];
  xor.b32 %r7, %r7, %r8; xor.b32 %r7, %r7, %r9; xor.b32 %r7, %r7, %r10; xor.b32 %r7, %r7, %r11;
  add.u64 %d4, %d4, %d5; bra LOOP;
DONE:
  setp.ne.u32 %p, %r7, 0x9e3779b9; @%p ret;
  st.global.u32 [%d3], %r7; ret;
}
)";

// Each step depends on the previous one.
constexpr char kProbe[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry probe(.param .u64 out, .param .u32 iterations) {
  .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d; .reg .f32 %f;
  ld.param.u64 %d, [out]; ld.param.u32 %r1, [iterations]; mov.u32 %r2, 0; mov.f32 %f, 0f3F800000;
LOOP:
  fma.rn.f32 %f, %f, 0f3F7FFFFF, 0f3F000000; add.u32 %r2, %r2, 1;
  setp.lt.u32 %p, %r2, %r1; @%p bra LOOP;
  st.global.f32 [%d], %f; ret;
}
)";
constexpr uint32_t kProbeSteps = 100'000;

double Median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

class BaselineOnGpu : public ::testing::Test {
 protected:
  BaselineOnGpu() : folder_(*os::TempDir::Create()) {}
  void SetUp() override {
    if (::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) {
      GTEST_SKIP() << "no CUDA driver";  // without starting PyTorch
    }
    BaselineOptions options;
    options.script = fs::path(CUPEL_SOURCE_DIR) / "src/oracle/py/baseline.py";
    options.kernels.flush_ptx = kFlush;
    options.kernels.flush_entry = "flush";
    options.kernels.flush_bytes = 256u << 20;
    options.kernels.probe_ptx = kProbe;
    options.kernels.probe_entry = "probe";
    options.kernels.probe_iterations = kProbeSteps;
    auto started = Baselines::Start(options);
    if (!started && (started.error().code == ErrorCode::kUnsupported ||
                     started.error().message.find("was not found") != std::string::npos)) {
      GTEST_SKIP() << started.error().ToString();
    }
    ASSERT_TRUE(started) << started.error().ToString();
    baselines_ = std::move(*started);
  }

  Task MakeTask(const std::string& body, const std::string& name,
                const std::string& shape = "256, 512") const {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path);
    std::ofstream(path / "func_forward.py") << "import torch\nimport torch.nn as nn\n"
                                            << "def forward_fn(x):\n    " << body << R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.rand()" << shape << R"() + 1]
)";
    std::ofstream(path / "config_forward.json") << "{}";
    const auto task = task::LoadTask(path.string(), "");
    EXPECT_TRUE(task) << task.error().message;
    return *task;
  }
  static Task Ours(const std::string& name) {
    return *task::LoadTask(name, fs::path(CUPEL_SOURCE_DIR) / "tasks");
  }
  /// The message of a failure begins with "failed: ".
  std::variant<BaselineInfo, std::string> Prepare(const Task& task,
                                                  BaselineKind kind = BaselineKind::kEager,
                                                  Direction direction = Direction::kForward) {
    const uint64_t seeds[] = {11, 12, 13};
    auto outcome =
        baselines_->Prepare(task, direction, task.SettingsOf(direction)[0], {kind}, seeds);
    if (!outcome) return "failed: " + outcome.error().ToString();
    if (const auto* failure = std::get_if<SettingFailure>(&*outcome)) {
      return "failed: " + failure->message;
    }
    return std::get<BaselineInfo>(*outcome);
  }
  static std::string FailureOf(const std::variant<BaselineInfo, std::string>& outcome) {
    const auto* text = std::get_if<std::string>(&outcome);
    return text == nullptr ? "" : *text;
  }
  double MedianOf(const BaselineInfo& info, Mode mode) {
    std::vector<double> all;
    for (int set = 0; set < info.sets; ++set) {
      const auto samples = baselines_->Take(info.name, mode, set, 31);
      EXPECT_TRUE(samples) << samples.error().ToString();
      if (!samples) return 0;
      all.insert(all.end(), samples->begin(), samples->end());
    }
    return Median(std::move(all));
  }

  os::TempDir folder_;
  std::unique_ptr<Baselines> baselines_;
};

TEST_F(BaselineOnGpu, ProbeTimeMatchesItsInstructions) {
  const auto outcome = Prepare(Ours("mnist_linear"), BaselineKind::kProbe);
  ASSERT_EQ(FailureOf(outcome), "");
  const auto& info = std::get<BaselineInfo>(outcome);
  EXPECT_EQ(info.how, "graph");
  EXPECT_EQ(info.kernels, 1);
  const double cold = MedianOf(info, Mode::kCold), warm = MedianOf(info, Mode::kWarm);
  std::printf("  probe of %u steps: cold %.2f us, warm %.2f us\n", kProbeSteps, cold, warm);
  // At least 4 clocks per step, at 1 to 3 GHz, without the flush and the launch.
  EXPECT_GT(cold, kProbeSteps * 4 / 3000.0);
  EXPECT_LT(cold, kProbeSteps * 40 / 1000.0);
  EXPECT_NEAR(cold / warm, 1, 0.1);
}

TEST_F(BaselineOnGpu, EagerAndCompiledAgreeForwardAndBackward) {
  const Task task = Ours("mnist_linear");
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    for (const BaselineKind kind :
         {BaselineKind::kEager, BaselineKind::kCompile, BaselineKind::kMaxAutotune}) {
      SCOPED_TRACE(std::string(Name(direction)) + " " + Name(kind));
      const auto outcome = Prepare(task, kind, direction);
      ASSERT_EQ(FailureOf(outcome), "");
      const auto& info = std::get<BaselineInfo>(outcome);
      EXPECT_EQ(info.how, "graph") << info.why;
      EXPECT_FALSE(info.tf32);
      EXPECT_EQ(info.sets, 3) << info.fewer;
      EXPECT_GT(info.kernels, 0);
      EXPECT_EQ(info.outputs.size(), direction == Direction::kForward ? 1u : 3u);
      for (const BaselineOutput& output : info.outputs) {
        EXPECT_LE(output.difference, 1e-5 * output.largest) << output.name;
        EXPECT_GT(output.largest, 0);
      }
      const double cold = MedianOf(info, Mode::kCold), warm = MedianOf(info, Mode::kWarm);
      const double host = MedianOf(info, Mode::kHost);
      std::printf("  %s %s: cold %.2f us, warm %.2f us, host %.2f us; %lld kernels, %.1f s\n",
                  std::string(Name(direction)).c_str(), Name(kind), cold, warm, host,
                  static_cast<long long>(info.kernels), info.seconds);
      EXPECT_GT(cold, 0.5);
      EXPECT_GT(host, warm);
    }
  }
}

TEST_F(BaselineOnGpu, FlushEmptiesTheCache) {
  const auto outcome = Prepare(MakeTask("return x.sum()", "sum", "2048, 2048"));
  ASSERT_EQ(FailureOf(outcome), "");
  const auto& info = std::get<BaselineInfo>(outcome);
  const double cold = MedianOf(info, Mode::kCold), warm = MedianOf(info, Mode::kWarm);
  std::printf("  sum of 16 MiB: cold %.2f us, warm %.2f us\n", cold, warm);
  EXPECT_GT(cold, warm * 1.05);
}

TEST_F(BaselineOnGpu, TimesUncapturableCallsInTheStream) {
  int i = 0;
  // baseline.py detects the first before the capture. The second breaks its capture.
  for (const char* body :
       {"return x * x.max().item()", "torch.cuda.synchronize() or None; return x * 2"}) {
    const auto outcome = Prepare(MakeTask(body, "waits" + std::to_string(i++)));
    ASSERT_EQ(FailureOf(outcome), "") << body;
    const auto& info = std::get<BaselineInfo>(outcome);
    EXPECT_EQ(info.how, "stream") << body;
    std::printf("  %s: %s\n", body, info.why.c_str());
    EXPECT_NE(info.why, "");
    EXPECT_GT(MedianOf(info, Mode::kCold), 0);
    const auto after = Prepare(Ours("mnist_linear"));
    ASSERT_EQ(FailureOf(after), "") << "after " << body;
    EXPECT_EQ(std::get<BaselineInfo>(after).how, "graph");
    EXPECT_GT(MedianOf(std::get<BaselineInfo>(after), Mode::kCold), 0);
  }
}

TEST_F(BaselineOnGpu, RestoresArgumentsThatTheCallChanges) {
  const auto outcome = Prepare(MakeTask("return x.mul_(2)", "changes"));
  ASSERT_EQ(FailureOf(outcome), "");
  const auto& info = std::get<BaselineInfo>(outcome);
  ASSERT_EQ(info.outputs.size(), 2u);
  for (const BaselineOutput& output : info.outputs) {
    EXPECT_EQ(output.difference, 0);
    EXPECT_LE(output.largest, 4);
  }
  EXPECT_GT(MedianOf(info, Mode::kCold), 0);
}

TEST_F(BaselineOnGpu, ReportsFaultAndStartsAnotherChild) {
  const auto fault =
      Prepare(MakeTask("return x[torch.arange(1000000, 1000001).to(x.device)]", "faults"));
  EXPECT_THAT(FailureOf(fault), HasSubstr("failed: "));
  std::printf("  %s\n", FailureOf(fault).c_str());
  const auto after = Prepare(Ours("mnist_linear"));
  EXPECT_EQ(FailureOf(after), "");
}

}  // namespace
}  // namespace cupel::oracle
