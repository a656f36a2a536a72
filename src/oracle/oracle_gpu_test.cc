// Compares the truth of large cases computed on a real GPU with the CPU's. Reported as skipped
// without a GPU or without a PyTorch that can use it.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "oracle/oracle.h"
#include "oracle/python.h"
#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;
using task::Case;
using task::Direction;
using task::Distribution;

class TruthOnGpu : public ::testing::Test {
 protected:
  TruthOnGpu() : folder_(*os::TempDir::Create()) {}
  void SetUp() override {
    if (::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) {
      GTEST_SKIP() << "no CUDA driver";  // without starting PyTorch
    }
    const auto python = FindPython("", {});
    if (!python) GTEST_SKIP() << python.error().ToString();
  }
  /// 0, and the last GPU's number if there are several.
  static std::vector<int> Ordinals() {
    void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
    const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
    int gpus = 0;
    if (init == nullptr || count == nullptr || init(0) != 0 || count(&gpus) != 0) return {0};
    return gpus > 1 ? std::vector<int>{0, gpus - 1} : std::vector<int>{0};
  }
  Options With(std::optional<int> gpu) {
    Options options;
    options.script = fs::path(CUPEL_SOURCE_DIR) / "src/oracle/py/oracle.py";
    options.progress = [this](const std::string& text) { progress_.push_back(text); };
    if (gpu) options.gpu = TruthGpu{*gpu, LockPath()};
    return options;
  }
  fs::path LockPath() const { return folder_.path() / "gpu.lock"; }
  static CaseOutcome Drawn(Oracle& oracle, const char* name, Direction direction,
                           Distribution distribution) {
    const auto task = task::LoadTask(name, fs::path(CUPEL_SOURCE_DIR) / "tasks");
    EXPECT_TRUE(task) << task.error().message;
    auto stream =
        oracle.Open(*task, direction, task->SettingsOf(direction).at(0), 1, 7, true, distribution);
    EXPECT_TRUE(stream) << stream.error().ToString();
    auto outcome = (*stream)->Next();
    EXPECT_TRUE(outcome) << outcome.error().ToString();
    return std::move(**outcome);
  }
  /// The largest difference, as a share of the largest finite element.
  static double Difference(const task::Tensor& a, const task::Tensor& b) {
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < b.numel(); ++i) {
      const double x = task::ElementAsDouble(a, i), y = task::ElementAsDouble(b, i);
      if (std::isnan(x) && std::isnan(y)) continue;
      if (x != y) difference = std::max(difference, std::abs(x - y));
      if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
    }
    return largest > 0 ? difference / largest : difference;
  }

  void Compare(int ordinal, std::span<const std::pair<const char*, Direction>> tasks);

  os::TempDir folder_;
  std::vector<std::string> progress_;
};

TEST_F(TruthOnGpu, DiffersOnlyInTheLastBits) {
  const std::pair<const char*, Direction> tasks[] = {
      {"mnist_pool", Direction::kBackward},         {"unet_linear", Direction::kForward},
      {"unet_conv2d", Direction::kForward},         {"mnist_linear_relu", Direction::kBackward},
      {"causal_attention", Direction::kForward},    {"prefix_sum", Direction::kForward},
      {"embedding_gradient", Direction::kBackward}, {"softmax", Direction::kForward},
      {"causal_attention", Direction::kBackward},   {"fp8_quantize", Direction::kForward},
      {"rotary_cache", Direction::kForward},        {"selective_scan", Direction::kForward}};
  for (const int ordinal : Ordinals()) {
    SCOPED_TRACE(ordinal);
    Compare(ordinal, tasks);
  }
}

void TruthOnGpu::Compare(int ordinal, std::span<const std::pair<const char*, Direction>> tasks) {
  TorchOracle gpu(With(ordinal)), cpu(With(std::nullopt));
  for (const auto& [name, direction] : tasks) {
    for (const Distribution distribution :
         {Distribution::kUsual, Distribution::kNegative, Distribution::kNan}) {
      SCOPED_TRACE(std::string(name) + " " + std::string(task::Name(distribution)));
      const CaseOutcome a = Drawn(gpu, name, direction, distribution);
      const CaseOutcome b = Drawn(cpu, name, direction, distribution);
      ASSERT_EQ(a.index(), b.index());
      if (std::holds_alternative<SettingFailure>(b)) continue;
      const Case &x = std::get<Case>(a), &y = std::get<Case>(b);
      ASSERT_EQ(x.seed, y.seed);
      ASSERT_EQ(x.outputs.size(), y.outputs.size());
      for (size_t i = 0; i < y.outputs.size(); ++i) {
        if (y.outputs[i].is_none) continue;
        EXPECT_EQ(Difference(x.outputs[i].reference, y.outputs[i].reference), 0);
        EXPECT_LT(Difference(x.outputs[i].truth, y.outputs[i].truth), 1e-9);
        EXPECT_NEAR(x.outputs[i].error_scale, y.outputs[i].error_scale,
                    1e-3 * y.outputs[i].error_scale);
      }
    }
  }
  for (const std::string& text : progress_) {
    EXPECT_THAT(text, ::testing::Not(::testing::StartsWith("computing truth on the CPU")));
  }
  EXPECT_TRUE(fs::exists(LockPath()));  // PyTorch used the GPU
}

}  // namespace
}  // namespace cupel::oracle
