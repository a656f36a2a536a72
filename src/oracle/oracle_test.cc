// Tests the oracle with this machine's PyTorch. Reported as skipped if there is none.
// SPDX-License-Identifier: Apache-2.0
#include "oracle/oracle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include "oracle/python.h"
#include "os/fd.h"
#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;
using task::Case;
using task::Direction;
using task::Distribution;
using task::Task;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

fs::path Source() { return CUPEL_SOURCE_DIR; }

class OracleTest : public ::testing::Test {
 protected:
  OracleTest() : folder_(*os::TempDir::Create()) {}
  static void SetUpTestSuite() { suite_folder_.emplace(*os::TempDir::Create()); }
  static void TearDownTestSuite() {
    shared_.reset();
    suite_folder_.reset();
  }

  void SetUp() override {
    const auto python = FindPython("", suite_folder_->path() / "pythons.json");
    if (!python) GTEST_SKIP() << python.error().ToString();
    // Stored where the oracle looks, so that no test repeats the probe.
    fs::create_directories(folder_.path() / "cache");
    fs::copy_file(suite_folder_->path() / "pythons.json", folder_.path() / "cache/pythons.json");
  }
  /// One oracle for the tests that need no other: PyTorch takes seconds to start.
  static TorchOracle& Shared() {
    if (!shared_) {
      Options options;
      options.script = Source() / "src/oracle/py/oracle.py";
      options.cache = suite_folder_->path();
      shared_.emplace(options);
    }
    return *shared_;
  }
  Options With(bool cached = true) const {
    Options options;
    options.script = Source() / "src/oracle/py/oracle.py";
    if (cached) options.cache = folder_.path() / "cache";
    options.progress = [this](const std::string& text) { progress_.push_back(text); };
    return options;
  }
  bool StartedPyTorch() const {
    for (const std::string& text : progress_) {
      if (text.rfind("starting PyTorch", 0) == 0) return true;
    }
    return false;
  }
  /// A task folder with this func_forward.py (after the imports).
  Task MakeTask(const std::string& code, const std::string& config = "{}",
                const std::string& name = "made", const std::string& direction = "forward") const {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path);
    std::ofstream(path / ("func_" + direction + ".py"))
        << "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
        << code;
    std::ofstream(path / ("config_" + direction + ".json")) << config;
    const auto task = task::LoadTask(path.string(), "");
    EXPECT_TRUE(task) << task.error().message;
    return *task;
  }
  /// A KernelBench file with parameters, buffers and a tensor outside state_dict.
  Task MakeProblem() const {
    const fs::path path = folder_.path() / "7_Problem.py";
    std::ofstream(path) << R"(
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, 4)
        self.norm = nn.BatchNorm1d(4)
        self.relu = nn.ReLU(inplace=True)
        self.mask = torch.tril(torch.ones(4, 4))
    def forward(self, x):
        return self.relu(self.norm(self.linear(x))) @ self.mask
def get_inputs():
    return [torch.randn(6, 3)]
def get_init_inputs():
    return [3]
)";
    return *task::LoadTask(path.string(), "");
  }
  static Task Ours(const std::string& name) { return *task::LoadTask(name, Source() / "tasks"); }

  static CaseOutcome One(Oracle& oracle, const Task& task,
                         Direction direction = Direction::kForward, size_t setting = 0) {
    auto outcomes = oracle.Cases(task, direction, task.SettingsOf(direction).at(setting), 1, 1);
    EXPECT_TRUE(outcomes) << outcomes.error().ToString();
    if (!outcomes || outcomes->empty()) return SettingFailure{"no outcome"};
    return std::move(outcomes->front());
  }
  static std::string FailureOf(const CaseOutcome& outcome) {
    const auto* failure = std::get_if<SettingFailure>(&outcome);
    return failure == nullptr ? "" : failure->message;
  }

  static inline std::optional<os::TempDir> suite_folder_;
  static inline std::optional<TorchOracle> shared_;
  os::TempDir folder_;
  mutable std::vector<std::string> progress_;
};

double RmsError(const task::Output& output) {
  double sum = 0;
  const int64_t count = output.truth.numel();
  for (int64_t i = 0; i < count; ++i) {
    const double d =
        task::ElementAsDouble(output.reference, i) - task::ElementAsDouble(output.truth, i);
    sum += d * d;
  }
  return std::sqrt(sum / static_cast<double>(count));
}

constexpr char kNormCode[] = R"(
def forward_fn(x, w, eps=1e-8):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).type_as(x) * w
class Model(nn.Module):
    def __init__(self, n=64):
        super().__init__()
        self.w = nn.Parameter(nn.RMSNorm([n]).weight.data.clone().normal_(1, 0.1))
    def forward(self, x, fn=forward_fn):
        return fn(x, self.w, 1e-8)
def get_inputs(n=64):
    return [torch.randn(32, n)]
)";

TEST_F(OracleTest, TruthIsExactEvenIfTheTaskCastsToFloat) {
  TorchOracle& oracle = Shared();
  const CaseOutcome outcome = One(oracle, MakeTask(kNormCode));
  ASSERT_EQ(FailureOf(outcome), "");
  const Case& c = std::get<Case>(outcome);
  ASSERT_EQ(c.args.size(), 3u);
  EXPECT_EQ(std::get<double>(c.args[2].data), 1e-8);
  const task::Tensor& x = *c.args[0].AsTensor();
  const task::Tensor& w = *c.args[1].AsTensor();
  const task::Output& y = c.outputs.at(0);
  double worst = 0;
  for (int64_t row = 0; row < 32; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < 64; ++i) sum += std::pow(task::ElementAsDouble(x, row * 64 + i), 2);
    const double scale = 1 / std::sqrt(sum / 64 + 1e-8);
    for (int64_t i = 0; i < 64; ++i) {
      const double want =
          task::ElementAsDouble(x, row * 64 + i) * scale * task::ElementAsDouble(w, i);
      worst = std::max(worst, std::abs(want - task::ElementAsDouble(y.truth, row * 64 + i)));
    }
  }
  EXPECT_LT(worst, 1e-14);
  EXPECT_GT(RmsError(y), 1e-9);  // float32 is not exact
  EXPECT_GT(y.error_scale, RmsError(y) / 4);
  EXPECT_LT(y.error_scale, 4e-6);
  EXPECT_FALSE(c.returns_tuple);
  EXPECT_FALSE(c.torch_version.empty());
  EXPECT_EQ(c.setting, "single-0");
}

// Of thousands of sums, the terms are concentrated in one row, like a frequent word's gradient.
constexpr const char* kFrequentRowCode = R"(
import torch, torch.nn as nn
def forward_fn(x, index):
    return torch.zeros(4096, 16).index_add(0, index, x)
class Model(nn.Module):
    def forward(self, x, index, fn=forward_fn):
        return fn(x, index)
def get_inputs(n=4000):
    index = torch.zeros(n, dtype=torch.int64)
    index[:16] = torch.arange(16) * 100 + 7
    return [torch.randn(n, 16) + 2, index]
)";

TEST_F(OracleTest, ScaleAllowsPyTorchsLargestErrorIfFewElementsAreLarge) {
  TorchOracle& oracle = Shared();
  const CaseOutcome outcome = One(oracle, MakeTask(kFrequentRowCode));
  ASSERT_EQ(FailureOf(outcome), "");
  const task::Output& y = std::get<Case>(outcome).outputs.at(0);
  double largest = 0;
  for (int64_t i = 0; i < y.truth.numel(); ++i) {
    largest = std::max(largest, std::abs(task::ElementAsDouble(y.truth, i) -
                                         task::ElementAsDouble(y.reference, i)));
  }
  EXPECT_GT(largest, 40 * RmsError(y));  // the RMS hides the row's error
  EXPECT_LT(2 * largest, 128 * y.error_scale);
  EXPECT_GT(8 * largest, 128 * y.error_scale / 4);
}

constexpr char kVectorTail[] = R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs(n=16):
    return [torch.randn(n)]
)";

constexpr char kTail[] = R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.randn(16, 32)]
)";

/// oracle.py with a simulated GPU: tensors are marked as "there", and an operation fails if it
/// mixes them with other tensors, as on a GPU.
class OracleWithSimulatedGpu : public OracleTest {
 protected:
  Options WithSimulatedGpu() const {
    const fs::path scripts = folder_.path() / "scripts";
    fs::create_directories(scripts);
    for (const fs::path& folder : {Source() / "src/oracle/py", Source() / "src/oracle/testdata"}) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        const fs::path link = scripts / entry.path().filename();
        if (entry.path().extension() == ".py" && !fs::exists(link)) {
          fs::create_symlink(entry.path(), link);
        }
      }
    }
    Options options = With(false);
    options.script = scripts / "oracle_without_gpu.py";
    options.gpu = TruthGpu{0, LockPath()};
    return options;
  }
  fs::path LockPath() const { return folder_.path() / "gpu.lock"; }
  /// The messages about cases that the CPU computed instead.
  std::vector<std::string> CpuMessages() const {
    std::vector<std::string> found;
    for (const std::string& text : progress_) {
      if (text.rfind("computing truth on the CPU", 0) == 0) found.push_back(text);
    }
    return found;
  }
  static CaseOutcome Drawn(Oracle& oracle, const Task& task, Direction direction,
                           Distribution distribution) {
    auto stream =
        oracle.Open(task, direction, task.SettingsOf(direction).at(0), 1, 7, true, distribution);
    EXPECT_TRUE(stream) << stream.error().ToString();
    auto outcome = (*stream)->Next();
    EXPECT_TRUE(outcome) << outcome.error().ToString();
    return std::move(**outcome);
  }
};

TEST_F(OracleWithSimulatedGpu, MovesAllTensorsAndGivesSameTruth) {
  TorchOracle there(WithSimulatedGpu()), here(With(false));
  const std::pair<Task, Direction> tasks[] = {{Ours("mnist_linear"), Direction::kBackward},
                                              {Ours("mnist_cross_entropy"), Direction::kForward},
                                              {MakeProblem(), Direction::kForward}};
  for (const auto& [task, direction] : tasks) {
    for (const Distribution distribution :
         {Distribution::kUsual, Distribution::kIntegers, Distribution::kNegative,
          Distribution::kConstant, Distribution::kNan, Distribution::kStrided}) {
      SCOPED_TRACE(task.name + " " + std::string(Name(distribution)));
      const CaseOutcome a = Drawn(there, task, direction, distribution);
      const CaseOutcome b = Drawn(here, task, direction, distribution);
      ASSERT_EQ(FailureOf(a), FailureOf(b));
      if (!FailureOf(b).empty()) continue;
      const Case &x = std::get<Case>(a), &y = std::get<Case>(b);
      ASSERT_EQ(x.outputs.size(), y.outputs.size());
      for (size_t i = 0; i < y.outputs.size(); ++i) {
        const task::Output &p = x.outputs[i], &q = y.outputs[i];
        ASSERT_EQ(p.truth.numel(), q.truth.numel());
        for (int64_t k = 0; k < q.truth.numel(); ++k) {
          const double left = task::ElementAsDouble(p.truth, k);
          const double right = task::ElementAsDouble(q.truth, k);
          ASSERT_TRUE(left == right || (std::isnan(left) && std::isnan(right))) << k;
        }
        EXPECT_NEAR(p.error_scale, q.error_scale, 1e-9 * q.error_scale);
      }
    }
  }
  EXPECT_THAT(CpuMessages(), ::testing::IsEmpty());
  EXPECT_TRUE(fs::exists(LockPath()));  // the GPU was used
}

TEST_F(OracleWithSimulatedGpu, FallsBackToTheCpu) {
  TorchOracle oracle(WithSimulatedGpu());
  const Task task = MakeTask(R"(
def forward_fn(x):
    return x + torch.frombuffer(bytearray(64), dtype=torch.float32)
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.randn(8, 16)]
)");
  for (int i = 0; i < 2; ++i) {  // the second case does not try the GPU again
    EXPECT_EQ(FailureOf(One(oracle, task)), "");
    EXPECT_THAT(CpuMessages(), ElementsAre(HasSubstr("same device")));
  }
}

/// What a reference asks about devices has the answers of PyTorch's own run, on the CPU, so its
/// float64 run on the GPU computes the same.
TEST_F(OracleWithSimulatedGpu, RepeatsWhatTheCpuComputed) {
  TorchOracle oracle(WithSimulatedGpu());
  for (const char* device : {"x.is_cuda", "not x.is_cpu", "x.get_device() >= 0",
                             "x.device.type == 'cuda'", "torch.get_device(x) >= 0"}) {
    SCOPED_TRACE(device);
    const Task task = MakeTask(fmt::format(R"(
def forward_fn(x, half):
    if {}:
        return x + 1
    wide = half.float()
    first = torch.arange(x.size(-1), device=x.device, dtype=x.dtype)
    more = (torch.ones(16) + torch.zeros(16, device="cpu")).to("cpu").to(x.device).cpu()
    copy = more.to("cuda").cuda()
    copy += 1
    return ((x + wide) * first + more + copy).to(half.dtype)
class Model(nn.Module):
    def forward(self, x, half, fn=forward_fn):
        return fn(x, half)
def get_inputs():
    return [torch.ones(8, 16), torch.ones(8, 16).half()]
)",
                                           device));
    const CaseOutcome outcome = One(oracle, task);
    ASSERT_EQ(FailureOf(outcome), "");
    EXPECT_THAT(CpuMessages(), ::testing::IsEmpty());
    const task::Output& y = std::get<Case>(outcome).outputs.at(0);
    for (const int64_t i : {0, 5, 127}) {
      EXPECT_EQ(task::ElementAsDouble(y.truth, i), 2.0 * static_cast<double>(i % 16) + 3);
    }
  }
}

TEST_F(OracleWithSimulatedGpu, TriesTheGpuAgainAfterOutOfMemory) {
  TorchOracle oracle(WithSimulatedGpu());
  const Task task = MakeTask(R"(
import sys
def forward_fn(x):
    if x.numel() and x.storage().data_ptr() in sys.modules["__main__"].there:
        raise RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")
    return x + 1
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.randn(8, 16)]
)");
  for (const int i : {1, 2}) {
    progress_.clear();
    EXPECT_EQ(FailureOf(One(oracle, task)), "");
    EXPECT_THAT(CpuMessages(), Contains(HasSubstr("ALLOC_FAILED"))) << i;
  }
}

// After a decision by a value, the calls of PyTorch's own run are no guide.
TEST_F(OracleWithSimulatedGpu, UsesTheCpuIfAReferenceAsksForItsDeviceTooLate) {
  TorchOracle oracle(WithSimulatedGpu());
  const Task task = MakeTask(R"(
def forward_fn(x):
    y, steps = x, 0
    while float((y * y - 2).abs().max()) > 1e-9 and steps < 40:
        y, steps = y / 2 + 1 / y, steps + 1
    return y + 100 if x.is_cuda else y
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.rand(8, 16) + 1]
)");
  const CaseOutcome outcome = One(oracle, task);
  ASSERT_EQ(FailureOf(outcome), "");
  EXPECT_THAT(CpuMessages(), ElementsAre(HasSubstr("asks where its tensors are")));
  EXPECT_NEAR(task::ElementAsDouble(std::get<Case>(outcome).outputs.at(0).truth, 5), 1.41421356,
              1e-6);
}

constexpr char kBreaks[] = R"(
import sys
def forward_fn(x):
    main = sys.modules["__main__"]
    if x.numel() and x.storage().data_ptr() in main.there:
        main.broken.append(1)
    return x + 1
)";

// As an illegal access: nothing works on the GPU until the process ends.
TEST_F(OracleWithSimulatedGpu, ReplacesAChildWhoseGpuIsBroken) {
  TorchOracle oracle(WithSimulatedGpu());
  const Task breaks = MakeTask(std::string(kBreaks) + kTail);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(FailureOf(One(oracle, breaks)), "");
    EXPECT_THAT(CpuMessages(), ElementsAre(HasSubstr("illegal memory access")));
  }
  progress_.clear();
  EXPECT_EQ(FailureOf(One(oracle, Ours("mnist_linear"))), "");  // on the new child's GPU
  EXPECT_THAT(CpuMessages(), ::testing::IsEmpty());
  EXPECT_FALSE(StartedPyTorch());
  // No caller waits for the answer that breaks the GPU. The next questions still get answers.
  const Task later = MakeTask(std::string(kBreaks) + kTail);
  {
    auto stream =
        oracle.Open(later, Direction::kForward, later.SettingsOf(Direction::kForward).at(0), 1, 7,
                    true, Distribution::kUniform);
    ASSERT_TRUE(stream) << stream.error().ToString();
  }
  for (const char* name : {"mnist_linear_relu", "mnist_linear"}) {  // the first is not loaded yet
    for (const Distribution distribution : {Distribution::kNormal, Distribution::kUsual}) {
      const auto drawn = Drawn(oracle, Ours(name), Direction::kForward, distribution);
      EXPECT_EQ(FailureOf(drawn), "");
    }
  }
}

TEST_F(OracleWithSimulatedGpu, UsesTheCpuWhileAnotherProcessMeasures) {
  const os::Fd lock(::open(LockPath().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  TorchOracle oracle(WithSimulatedGpu());
  EXPECT_EQ(FailureOf(One(oracle, Ours("mnist_linear"))), "");
  EXPECT_THAT(CpuMessages(), ElementsAre(HasSubstr("BlockingIOError")));
  ASSERT_EQ(::flock(lock.get(), LOCK_UN), 0);
  progress_.clear();
  EXPECT_EQ(FailureOf(One(oracle, Ours("mnist_linear_relu"))), "");
  EXPECT_THAT(CpuMessages(), ::testing::IsEmpty());
}

TEST_F(OracleTest, MakesCompleteCasesOfOurTasks) {
  TorchOracle& oracle = Shared();
  struct Expected {
    const char* task;
    Direction direction;
    std::vector<std::vector<int64_t>> args, outputs;
  };
  const std::vector<Expected> expected = {
      {"mnist_linear", Direction::kForward, {{64, 128}, {10, 128}, {10}}, {{64, 10}}},
      {"mnist_linear",
       Direction::kBackward,
       {{64, 10}, {64, 128}, {10, 128}},
       {{64, 128}, {10, 128}, {10}}},
      {"mnist_linear_relu", Direction::kForward, {{64, 1600}, {128, 1600}, {128}}, {{64, 128}}},
      {"mnist_cross_entropy", Direction::kForward, {{64, 10}, {64}}, {{}}},
      {"mnist_cross_entropy", Direction::kBackward, {{}, {64, 10}, {64}}, {{64, 10}}},
      {"mnist_conv_relu_pool",
       Direction::kForward,
       {{64, 1, 28, 28}, {32, 1, 3, 3}, {32}},
       {{64, 32, 13, 13}}},
  };
  for (const Expected& e : expected) {
    SCOPED_TRACE(std::string(e.task) + " " + std::string(Name(e.direction)));
    const CaseOutcome outcome = One(oracle, Ours(e.task), e.direction);
    ASSERT_EQ(FailureOf(outcome), "");
    const Case& c = std::get<Case>(outcome);
    const auto leaves = task::TensorLeaves(c.args);
    ASSERT_EQ(leaves.size(), e.args.size());
    for (size_t i = 0; i < leaves.size(); ++i) EXPECT_EQ(leaves[i]->shape, e.args[i]);
    ASSERT_EQ(c.outputs.size(), e.outputs.size());
    EXPECT_EQ(c.returns_tuple, c.outputs.size() > 1);
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const task::Output& o = c.outputs[i];
      EXPECT_EQ(o.shape, e.outputs[i]);
      // PyTorch itself must pass with a margin, and the scale must not be too large.
      EXPECT_LE(RmsError(o), 4 * o.error_scale);
      double size = 0;
      for (int64_t j = 0; j < o.truth.numel(); ++j) {
        size += std::pow(task::ElementAsDouble(o.truth, j), 2);
      }
      size = std::sqrt(size / static_cast<double>(o.truth.numel()));
      EXPECT_GT(o.error_scale, size * 0x1p-23);
      EXPECT_LT(o.error_scale, size * 0x1p-18);
    }
  }
  EXPECT_TRUE(oracle.warnings().empty());
  // llama_rmsnorm's settings are large, except the held-out one.
  const Task norm = Ours("llama_rmsnorm");
  const CaseOutcome outcome =
      One(oracle, norm, Direction::kForward, norm.SettingsOf(Direction::kForward).size() - 1);
  ASSERT_EQ(FailureOf(outcome), "");
}

// Of a huge output (here 2^13 elements), E comes from the case's own draw, not from an earlier one.
TEST_F(OracleTest, ASeedRepeatsTheErrorScaleOfAHugeOutput) {
  const Task task = MakeTask(R"(
def forward_fn(x, y):
    return x / y
class Model(nn.Module):
    def forward(self, x, y, fn=forward_fn):
        return fn(x, y)
def get_inputs():
    return [torch.randn(1 << 13), torch.randn(1 << 13)]
)");
  const fs::path script = folder_.path() / "smaller" / "smaller.py";
  fs::create_directories(script.parent_path());
  std::ofstream(script) << "import sys\nsys.path.insert(0, '"
                        << (Source() / "src/oracle/py").string()
                        << "')\nimport case_server, error_scale, oracle\n"
                           "error_scale.HUGE_OUTPUTS = 1 << 13\n"
                           "sys.exit(oracle.serve(case_server.Server))\n";
  const task::Setting& setting = task.SettingsOf(Direction::kForward)[0];
  const auto scales_of = [&](bool pooled, std::initializer_list<uint64_t> seeds) {
    Options options = With(pooled);
    options.script = script;
    TorchOracle oracle(options);
    std::map<uint64_t, double> scales;
    for (const uint64_t seed : seeds) {
      const auto stream = oracle.Open(task, Direction::kForward, setting, 1, seed, true);
      EXPECT_TRUE(stream);
      const auto outcome = (*stream)->Next();
      EXPECT_EQ(FailureOf(**outcome), "");
      scales[seed] = std::get<Case>(**outcome).outputs.at(0).error_scale;
    }
    return scales;
  };
  const auto fresh = scales_of(false, {1}), used = scales_of(true, {2, 1});
  EXPECT_NE(used.at(2), fresh.at(1));
  EXPECT_EQ(used.at(1), fresh.at(1));
  EXPECT_EQ(scales_of(true, {1}).at(1), fresh.at(1));  // with what the other has stored
}

TEST_F(OracleTest, SecondCheckStartsNoPyTorch) {
  const Task task = Ours("mnist_linear");
  const task::Setting& setting = task.SettingsOf(Direction::kForward)[0];
  std::set<std::string> first;
  {
    TorchOracle oracle(With());
    const auto outcomes = oracle.Cases(task, Direction::kForward, setting, 5, {});
    ASSERT_TRUE(outcomes) << outcomes.error().ToString();
    for (const CaseOutcome& outcome : *outcomes) first.insert(std::get<Case>(outcome).content_hash);
    EXPECT_EQ(first.size(), 5u);
    EXPECT_TRUE(StartedPyTorch());
  }
  progress_.clear();
  TorchOracle again(With());
  const auto outcomes = again.Cases(task, Direction::kForward, setting, 5, {});
  ASSERT_TRUE(outcomes);
  ASSERT_EQ(outcomes->size(), 5u);
  EXPECT_FALSE(StartedPyTorch());
  EXPECT_GT(std::get<Case>(outcomes->front()).outputs.at(0).error_scale, 0);
  // Fresh cases do not come from the pool.
  const auto fresh = again.Cases(task, Direction::kForward, setting, 1, {}, true);
  ASSERT_TRUE(fresh);
  EXPECT_TRUE(StartedPyTorch());
  EXPECT_EQ(first.count(std::get<Case>(fresh->front()).content_hash), 0u);
}

/// Settings of a task with one size.
std::vector<task::Setting> AtSizes(const Task& task, const std::vector<int64_t>& sizes) {
  std::vector<task::Setting> settings;
  for (const int64_t size : sizes) {
    settings.push_back(task.SettingsOf(Direction::kForward).front());
    settings.back().inputs["n"] = size;
  }
  return settings;
}

constexpr char kSized[] = R"(
def forward_fn(x, half, k):
    return (x @ half) * k
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6, dtype=torch.float64).half().float())
    def forward(self, x, fn=forward_fn):
        return fn(x.t(), self.weight, 3)
def get_inputs(n=8):
    return [torch.randn(5 if n == 13 else 4, n)]
)";

TEST_F(OracleTest, ShapesOfCallsNeedNoMemory) {
  const Task task = MakeTask(kSized, R"({"single_input_configs": [{"n": 8}]})");
  auto shapes = Shared().Shapes(task, Direction::kForward,
                                AtSizes(task, {8, 1'000'000'007, int64_t{1} << 45, 13}));
  ASSERT_TRUE(shapes) << shapes.error().ToString();
  ASSERT_EQ(shapes->size(), 4u);
  const auto* small = std::get_if<task::CallShape>(&(*shapes)[0]);
  const auto* large = std::get_if<task::CallShape>(&(*shapes)[1]);
  ASSERT_NE(small, nullptr) << std::get<SettingFailure>((*shapes)[0]).message;
  ASSERT_NE(large, nullptr) << std::get<SettingFailure>((*shapes)[1]).message;
  ASSERT_EQ(large->args.size(), 3u);
  const task::Tensor& x = *large->args[0].AsTensor();
  EXPECT_THAT(x.shape, ElementsAre(1'000'000'007, 4));
  EXPECT_THAT(x.strides, ElementsAre(1, 1'000'000'007));  // the view that Model.forward passes
  EXPECT_EQ(x.storage.size(), 16'000'000'112u);
  EXPECT_EQ(x.storage.back(), std::byte{0});
  EXPECT_EQ(std::get<int64_t>(large->args[2].data), 3);
  EXPECT_EQ(large->default_inputs, Json::object());  // the setting names all sizes
  const auto whole = Shared().Shapes(task, Direction::kForward, {task::Setting()});
  ASSERT_TRUE(whole);
  EXPECT_EQ(std::get<task::CallShape>(whole->front()).default_inputs, (Json{{"n", 8}}));
  EXPECT_TRUE(std::holds_alternative<SettingFailure>((*shapes)[2]));  // beyond any machine
  // The task's own reference refuses this one.
  ASSERT_TRUE(std::holds_alternative<SettingFailure>((*shapes)[3]));
  EXPECT_THAT(std::get<SettingFailure>((*shapes)[3]).message, HasSubstr("func_forward.py"));
}

TEST_F(OracleTest, ShapesOfSlowReferencesAreGivenUp) {
  const Task task = MakeTask(std::string(R"(
def forward_fn(x):
    while x.numel() > 8:
        x = x + 0.0
    return x
)") + kVectorTail,
                             R"({"single_input_configs": [{"n": 8}]})", "slow_shapes");
  const auto shapes = Shared().Shapes(task, Direction::kForward, AtSizes(task, {9, 8}));
  ASSERT_TRUE(shapes) << shapes.error().ToString();
  ASSERT_TRUE(std::holds_alternative<SettingFailure>(shapes->front()));
  EXPECT_THAT(std::get<SettingFailure>(shapes->front()).message, HasSubstr("more than 1 s"));
  EXPECT_TRUE(std::holds_alternative<task::CallShape>(shapes->back()));
}

TEST_F(OracleTest, ShapesAreKept) {
  const Task task = MakeTask(kSized, R"({"single_input_configs": [{"n": 8}]})");
  for (const bool first : {true, false}) {
    progress_.clear();
    TorchOracle oracle(With());
    const auto shapes = oracle.Shapes(task, Direction::kForward, AtSizes(task, {9, 10}));
    ASSERT_TRUE(shapes) << shapes.error().ToString();
    EXPECT_TRUE(std::holds_alternative<task::CallShape>(shapes->back()));
    EXPECT_EQ(StartedPyTorch(), first);
  }
}

TEST_F(OracleTest, ShapesOfBackwardCalls) {
  const auto task = task::LoadTask("mnist_cross_entropy", Source() / "tasks");
  ASSERT_TRUE(task);
  auto settings = task->SettingsOf(Direction::kBackward);
  settings.resize(1);
  settings[0].inputs["batch_size"] = 77;
  const auto shapes = Shared().Shapes(*task, Direction::kBackward, settings);
  ASSERT_TRUE(shapes) << shapes.error().ToString();
  const auto* call = std::get_if<task::CallShape>(&shapes->front());
  ASSERT_NE(call, nullptr) << std::get<SettingFailure>(shapes->front()).message;
  EXPECT_EQ(call->args[1].AsTensor()->shape[0], 77);
}

TEST_F(OracleTest, SameSeedGivesSameCases) {
  const Task task = Ours("mnist_linear");
  const task::Setting& setting = task.SettingsOf(Direction::kForward)[0];
  std::vector<std::string> hashes[3];
  for (int run = 0; run < 3; ++run) {
    // First without a cache, then to fill the cache, then from the cache.
    TorchOracle oracle(With(run > 0));
    const auto outcomes = oracle.Cases(task, Direction::kForward, setting, 3, 77);
    ASSERT_TRUE(outcomes);
    for (const CaseOutcome& o : *outcomes) hashes[run].push_back(std::get<Case>(o).content_hash);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
  EXPECT_NE(hashes[0][0], hashes[0][1]);
}

TEST_F(OracleTest, PassesViewsNoneNumbersAndTuples) {
  const Task task = MakeTask(R"(
def forward_fn(x, nothing, n, flag, shape, name):
    return x.reshape(shape) * n, x.argmax(dim=1)
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x.t()[1:], None, 3, True, (4, 2), "sum")[0]
def get_inputs():
    print("noise on stdout")
    return [torch.randn(4, 3)]
)");
  TorchOracle& oracle = Shared();
  const CaseOutcome outcome = One(oracle, task);
  ASSERT_EQ(FailureOf(outcome), "");
  const Case& c = std::get<Case>(outcome);
  ASSERT_EQ(c.args.size(), 6u);
  const task::Tensor& x = *c.args[0].AsTensor();
  EXPECT_EQ(x.shape, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(x.strides, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(x.offset, 1);
  EXPECT_EQ(x.storage.size(), 12 * sizeof(float));
  EXPECT_TRUE(std::holds_alternative<task::None>(c.args[1].data));
  EXPECT_EQ(std::get<int64_t>(c.args[2].data), 3);
  EXPECT_TRUE(std::get<bool>(c.args[3].data));
  EXPECT_EQ(std::get<std::vector<task::Value>>(c.args[4].data).size(), 2u);
  EXPECT_EQ(std::get<std::string>(c.args[5].data), "sum");
  EXPECT_TRUE(c.returns_tuple);
  ASSERT_EQ(c.outputs.size(), 2u);
  EXPECT_EQ(task::ElementAsDouble(c.outputs[0].truth, 5), 3 * task::ElementAsDouble(x, 5));
  EXPECT_EQ(c.outputs[1].dtype, DType::kI64);
  EXPECT_EQ(c.outputs[1].error_scale, 0);
}

/// The case of a distribution, or nullopt if the distribution does not apply to the setting.
std::optional<Case> Special(Oracle& oracle, const Task& task, Distribution distribution,
                            Direction direction = Direction::kForward, uint64_t seed = 1) {
  const auto stream =
      oracle.Open(task, direction, task.SettingsOf(direction).at(0), 1, seed, false, distribution);
  EXPECT_TRUE(stream);
  auto outcome = (*stream)->Next();
  EXPECT_TRUE(outcome && *outcome) << (outcome ? "" : outcome.error().ToString());
  if (!outcome || !*outcome) return std::nullopt;
  if (const auto* failure = std::get_if<SettingFailure>(&**outcome)) {
    EXPECT_TRUE(failure->inapplicable) << failure->message;
    return std::nullopt;
  }
  return std::move(std::get<Case>(**outcome));
}

TEST_F(OracleTest, DrawsSmallIntegersIfArithmeticIsExact) {
  TorchOracle oracle(With());
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const auto found = Special(oracle, Ours("mnist_linear"), Distribution::kIntegers, direction);
    ASSERT_TRUE(found);
    for (const task::Tensor* tensor : task::TensorLeaves(found->args)) {
      for (int64_t i = 0; i < tensor->numel(); ++i) {
        const double value = task::ElementAsDouble(*tensor, i);
        ASSERT_EQ(value, std::round(value));
        ASSERT_LE(std::abs(value), 2);
      }
    }
    for (const task::Output& output : found->outputs) EXPECT_EQ(RmsError(output), 0);
  }
  EXPECT_FALSE(Special(oracle, MakeTask(kNormCode), Distribution::kIntegers));
  // The refusal is cached: the next check starts no PyTorch.
  progress_.clear();
  TorchOracle again(With());
  EXPECT_FALSE(Special(again, MakeTask(kNormCode), Distribution::kIntegers));
  EXPECT_FALSE(StartedPyTorch());
}

TEST_F(OracleTest, RefusesIntegersIfResultsDependOnTies) {
  const std::string tail = R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.randn(16, 32)]
)";
  TorchOracle& oracle = Shared();
  const auto argmax = MakeTask("def forward_fn(x):\n    return x.argmax(1)\n" + tail, "{}", "a");
  EXPECT_FALSE(Special(oracle, argmax, Distribution::kIntegers));
  const auto step = MakeTask("def forward_fn(x):\n    return (x >= 0).float()\n" + tail, "{}", "b");
  EXPECT_FALSE(Special(oracle, step, Distribution::kIntegers));
  const auto relu = MakeTask("def forward_fn(x):\n    return x.relu()\n" + tail, "{}", "c");
  EXPECT_TRUE(Special(oracle, relu, Distribution::kIntegers));
  // With sums of 2^24 and more, the order of summation matters.
  const auto large =
      MakeTask("def forward_fn(x):\n    return x.sum(1) * 2.0 ** 20\n" + tail, "{}", "d");
  EXPECT_FALSE(Special(oracle, large, Distribution::kIntegers));
}

TEST_F(OracleTest, DrawsTinyInputsForEpsilons) {
  TorchOracle& oracle = Shared();
  const auto found = Special(oracle, MakeTask(kNormCode), Distribution::kTiny);
  ASSERT_TRUE(found);
  double largest = 0;
  const task::Tensor& x = *found->args[0].AsTensor();
  for (int64_t i = 0; i < x.numel(); ++i) {
    largest = std::max(largest, std::abs(task::ElementAsDouble(x, i)));
  }
  EXPECT_LT(largest, 0.01);
  EXPECT_GT(found->outputs[0].conditioning, 0);
  EXPECT_LE(found->outputs[0].conditioning, found->outputs[0].error_scale);
}

// On a GPU, moving a slice there makes it contiguous, and a slice that is made there stays one.
TEST_F(OracleTest, InputsHaveTheStridesThatTheyHaveOnAGpu) {
  const auto strides = [&](const char* name, const std::string& drawn, Distribution kind) {
    const Task task = MakeTask(
        "def forward_fn(x):\n    return x + 1\n"
        "class Model(nn.Module):\n"
        "    def forward(self, x, fn=forward_fn):\n"
        "        return fn(x)\n"
        "def get_inputs():\n"
        "    return [" +
            drawn + "]\n",
        "{}", name);
    if (kind != Distribution::kUsual) {
      const auto found = Special(Shared(), task, kind);
      return found ? found->args[0].AsTensor()->strides : std::vector<int64_t>();
    }
    const CaseOutcome outcome = One(Shared(), task);
    EXPECT_EQ(FailureOf(outcome), "");
    return std::get<Case>(outcome).args[0].AsTensor()->strides;
  };
  for (const Distribution kind : {Distribution::kUsual, Distribution::kNormal}) {
    EXPECT_THAT(strides("slice", "torch.randn(21, 30)[:, :10]", kind), ElementsAre(10, 1));
    EXPECT_THAT(strides("there", "torch.randn(21, 30, device='cuda')[:, :10]", kind),
                ElementsAre(30, 1));
    EXPECT_THAT(strides("derived", "(torch.randn(21, 30).cuda() * 2)[:, ::3]", kind),
                ElementsAre(30, 3));
    EXPECT_THAT(strides("moved", "torch.randn(21, 30)[:, :10].to('cuda')", kind),
                ElementsAre(10, 1));
    EXPECT_THAT(strides("turned", "torch.randn(21, 30).t()", kind), ElementsAre(1, 30));
    EXPECT_THAT(strides("spread", "torch.randn(21, 1, device='cuda').expand(21, 9)", kind),
                ElementsAre(9, 1));
  }
}

TEST_F(OracleTest, OtherDistributionsReplaceEveryParameter) {
  TorchOracle& oracle = Shared();
  const Task task = MakeTask(R"(
def forward_fn(x, w, b):
    return F.layer_norm(x, [32], w, b)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.ones(32)), nn.Parameter(torch.zeros(32))
    def forward(self, x, fn=forward_fn):
        return fn(x, self.w, self.b)
def get_inputs():
    return [torch.randn(16, 32)]
)");
  for (const Distribution kind :
       {Distribution::kNormal, Distribution::kUniform, Distribution::kHeavy}) {
    const auto found = Special(oracle, task, kind);
    ASSERT_TRUE(found) << Name(kind);
    for (const task::Tensor* tensor : task::TensorLeaves(found->args)) {
      std::set<double> numbers;
      for (int64_t i = 0; i < tensor->numel(); ++i) {
        numbers.insert(task::ElementAsDouble(*tensor, i));
      }
      EXPECT_GT(numbers.size(), 16u) << Name(kind);
    }
    EXPECT_LT(RmsError(found->outputs[0]), 16 * found->outputs[0].error_scale) << Name(kind);
  }
  const auto constant = Special(oracle, task, Distribution::kConstant);
  ASSERT_TRUE(constant);
  const task::Tensor& bias = *constant->args[2].AsTensor();
  EXPECT_NE(task::ElementAsDouble(bias, 0), 0);
  EXPECT_EQ(task::ElementAsDouble(bias, 0), task::ElementAsDouble(bias, 31));
}

// Far below zero, float32 cannot know the sine of a large product. One such element among many
// would be judged by the luck of PyTorch's rounding.
TEST_F(OracleTest, RefusesDrawsOfWhichOneElementFollowsTheRoundingOfProducts) {
  const auto furthest = [&](const char* name, const std::string& first) {
    const Task task = MakeTask(
        "def forward_fn(x, y):\n"
        "    z = x @ y * 1e-4\n"
        "    return torch.cat([" +
            first +
            "(z[:, :1]), z[:, 1:].tanh()], dim=1)\n"
            "class Model(nn.Module):\n"
            "    def forward(self, x, fn=forward_fn):\n"
            "        return fn(x, torch.randn(257, 1024))\n"
            "def get_inputs():\n"
            "    return [torch.randn(1, 257)]\n",
        "{}", name);
    const auto found = Special(Shared(), task, Distribution::kNegative);
    if (!found) return 0.0;
    double largest = -INFINITY;
    const task::Tensor& x = *found->args[0].AsTensor();
    for (int64_t i = 0; i < x.numel(); ++i) {
      largest = std::max(largest, task::ElementAsDouble(x, i));
    }
    return largest;
  };
  EXPECT_LT(furthest("tanh", "torch.tanh"), -88);
  EXPECT_GT(furthest("sine", "torch.sin"), -20);  // not that far below, or not at all
}

TEST_F(OracleTest, DrawsNegativeInputsAsFarBelowZeroAsTheTaskAllows) {
  TorchOracle& oracle = Shared();
  const auto largest = [&](const char* name, const std::string& code, const std::string& drawn) {
    const Task task =
        MakeTask("def forward_fn(x, y):\n    return " + code +
                     "\nclass Model(nn.Module):\n"
                     "    def forward(self, x, fn=forward_fn):\n"
                     "        return fn(x, " +
                     drawn + ")\ndef get_inputs():\n    return [torch.randn(16, 64)]\n",
                 "{}", name);
    std::vector<double> numbers;
    const auto found = Special(oracle, task, Distribution::kNegative);
    EXPECT_TRUE(found) << code;
    if (!found) return numbers;
    for (const task::Tensor* tensor : task::TensorLeaves(found->args)) {
      numbers.push_back(-INFINITY);
      for (int64_t i = 0; i < tensor->numel(); ++i) {
        numbers.back() = std::max(numbers.back(), task::ElementAsDouble(*tensor, i));
      }
    }
    return numbers;
  };
  const std::string noise = "torch.randn(64)", squares = "torch.randn(64).square()";
  const auto far = largest("a", "(x + y).softmax(1)", noise);
  EXPECT_LT(far[0], -88);
  EXPECT_LT(far[1], -88);
  const auto near = largest("b", "(x + y).exp().log()", noise);  // not finite further out
  EXPECT_LT(near[0], 0);
  EXPECT_GT(near[0], -20);
  const auto variance = largest("c", "x / (y + 1e-5).sqrt()", squares);
  EXPECT_LT(variance[0], -88);
  EXPECT_GT(variance[1], 0);
  const auto constant = largest("d", "x * y", "torch.ones(64)");
  EXPECT_LT(constant[0], -88);
  EXPECT_EQ(constant[1], 1);
}

TEST_F(OracleTest, DrawsOtherDistributionsInHalfPrecision) {
  TorchOracle& oracle = Shared();
  for (const char* type : {"half", "bfloat16"}) {
    const Task task = MakeTask("def forward_fn(x):\n    return (x.float() * 2).to(x.dtype)\n" +
                                   std::string(kTail).replace(std::string(kTail).rfind(")]"), 2,
                                                              std::string(").") + type + "()]"),
                               "{}", type);
    for (const Distribution kind : task::OtherInputs()) {
      const auto found = Special(oracle, task, kind);
      EXPECT_EQ(found.has_value(), kind != Distribution::kOneOffset) << type << " " << Name(kind);
      if (!found) continue;
      EXPECT_EQ(SizeOf(found->args[0].AsTensor()->dtype), 2);
    }
  }
}

constexpr const char* kFloat8Types[] = {"float8_e4m3fn", "float8_e5m2"};

std::string Filled(std::string text, const std::string& type) {
  for (size_t at; (at = text.find("TYPE")) != std::string::npos;) text.replace(at, 4, type);
  return text;
}

// All float8 numbers, ties between them, and float32 numbers next to the ties, in both directions.
TEST_F(OracleTest, ConvertsFloat8AsOurTableDoes) {
  TorchOracle& oracle = Shared();
  for (const char* type : kFloat8Types) {
    const CaseOutcome outcome = One(oracle, MakeTask(Filled(R"(
def forward_fn(x, y):
    return x.to(torch.float32), y.to(torch.TYPE)
class Model(nn.Module):
    def forward(self, x, y, fn=forward_fn):
        return fn(x, y)
def get_inputs():
    x = torch.arange(256, dtype=torch.uint8).view(torch.TYPE)
    some = x.float()[torch.isfinite(x.float())].sort().values
    ties = (some[1:] + some[:-1]) / 2
    far = torch.tensor([1e-9, 460., 464., 464.1, 6e4, 61439., 61440., 1e9])
    around = [torch.nextafter(ties, torch.full_like(ties, s)) for s in (-1e9, 1e9)]
    return [x, torch.cat([some, ties, far, -far] + around)]
)",
                                                            type),
                                                     "{}", type));
    ASSERT_EQ(FailureOf(outcome), "");
    const Case& c = std::get<Case>(outcome);
    const DType dtype = *DTypeFromName(type);
    EXPECT_EQ(c.args[0].AsTensor()->dtype, dtype);
    for (int64_t i = 0; i < 256; ++i) {
      const double ours = Float8ToFloat(dtype, static_cast<uint8_t>(i));
      const double theirs = task::ElementAsDouble(c.outputs[0].reference, i);
      EXPECT_TRUE(ours == theirs || (std::isnan(ours) && std::isnan(theirs))) << type << i;
    }
    const task::Tensor& y = *c.args[1].AsTensor();
    ASSERT_EQ(c.outputs[1].dtype, dtype);
    for (int64_t i = 0; i < y.numel(); ++i) {
      const auto value = static_cast<float>(task::ElementAsDouble(y, i));
      const double ours = Float8ToFloat(dtype, FloatToFloat8(dtype, value));
      const double theirs = task::ElementAsDouble(c.outputs[1].reference, i);
      if (std::isnan(theirs)) {  // beyond the largest, before PyTorch 2.13
        EXPECT_GT(std::abs(value), 464);
        continue;
      }
      EXPECT_EQ(ours, theirs) << type << " " << value;
      const double truth = task::ElementAsDouble(c.outputs[1].truth, i);
      EXPECT_EQ(truth, std::abs(value) > LargestFinite(dtype) ? theirs : value);
    }
  }
}

TEST_F(OracleTest, ScaleOfFloat8OutputLeavesItsRoundingOut) {
  TorchOracle& oracle = Shared();
  for (const char* type : kFloat8Types) {
    const CaseOutcome outcome = One(
        oracle,
        MakeTask(Filled("def forward_fn(x):\n    return (x * 3).to(torch.TYPE)\n", type) + kTail,
                 "{}", type));
    ASSERT_EQ(FailureOf(outcome), "");
    const task::Output& y = std::get<Case>(outcome).outputs[0];
    EXPECT_TRUE(y.rounds_to_float8);
    EXPECT_EQ(y.truth.dtype, DType::kF64);
    EXPECT_GT(RmsError(y), 0.03);  // the rounding
    EXPECT_GT(y.error_scale, 0x1p-13 * 3);
    EXPECT_LT(y.error_scale, 0x1p-11 * 3);
  }
}

// The truth has all digits, and E is less than PyTorch's own error.
TEST_F(OracleTest, RoundsToFloat8OnlyInTheReference) {
  TorchOracle& oracle = Shared();
  const std::string code = R"(
def forward_fn(x, w):
    scale = x.abs().amax(dim=1, keepdim=True) / 448
    return torch._scaled_mm((x / scale).to(torch.float8_e4m3fn), w.t(), scale_a=scale,
                            scale_b=torch.full((1, 64), 0.5), out_dtype=torch.bfloat16)
class Model(nn.Module):
    def forward(self, x, w, fn=forward_fn):
        return fn(x, w)
def get_inputs():
    return [torch.randn(32, 64), torch.randn(64, 64).to(torch.float8_e4m3fn)]
)";
  const CaseOutcome outcome = One(oracle, MakeTask(code));
  ASSERT_EQ(FailureOf(outcome), "");
  const Case& c = std::get<Case>(outcome);
  const task::Output& y = c.outputs[0];
  EXPECT_TRUE(y.rounds_to_float8);
  const task::Tensor &x = *c.args[0].AsTensor(), &w = *c.args[1].AsTensor();
  for (int64_t i = 0; i < 32 * 64; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < 64; ++k) {
      sum += task::ElementAsDouble(x, i / 64 * 64 + k) * task::ElementAsDouble(w, i % 64 * 64 + k);
    }
    EXPECT_NEAR(task::ElementAsDouble(y.truth, i), sum / 2, 1e-12);
  }
  EXPECT_GT(RmsError(y), 0.02);
  EXPECT_LT(y.error_scale, RmsError(y) / 4);
  EXPECT_GT(y.error_scale, RmsError(y) / 12);
  ASSERT_FALSE(oracle.warnings().empty());
  EXPECT_THAT(oracle.warnings()[0], HasSubstr("rounds to float8"));
}

// A cast may name its type in many ways, and all must give the same truth and the same E, except
// that each task has its own draws.
TEST_F(OracleTest, FindsRoundingToFloat8HoweverTheTypeIsNamed) {
  TorchOracle& oracle = Shared();
  const std::string ways[] = {
      "q = v.to(torch.TYPE)",
      "q = v.to(dtype=w.dtype)",
      "q = v.to(w)",
      "q = v.type_as(w)",
      "q = v.to({torch.TYPE: w.dtype}[w.dtype])",
      "q = w.new_empty(v.shape).copy_(v)",
      "q = torch.empty_like(v, dtype=w.dtype)\n    q[...] = v",
      "q = torch.stack([row.to(w.dtype) for row in v])",
      "assert w.dtype == torch.TYPE\n    q = v.to(w.dtype)",
  };
  for (const char* type : kFloat8Types) {
    double first = 0;
    for (const std::string& way : ways) {
      const std::string code = R"(
def forward_fn(x, w):
    largest = torch.finfo(w.dtype).max
    scale = x.abs().amax(dim=1, keepdim=True) / largest
    v = x / scale * (1.5 if w.dtype == torch.float8_e4m3fn else 0.9)
    )" + way + R"(
    return (q.float() @ w.float()) * scale
class Model(nn.Module):
    def forward(self, x, w, fn=forward_fn):
        return fn(x, w)
def get_inputs():
    return [torch.randn(16, 32), torch.randn(32, 16).to(torch.TYPE)]
)";
      const CaseOutcome outcome =
          One(oracle, MakeTask(Filled(code, type), "{}", fmt::format("{}_{}", type, &way - ways)));
      ASSERT_EQ(FailureOf(outcome), "") << way;
      const Case& c = std::get<Case>(outcome);
      const task::Output& y = c.outputs[0];
      EXPECT_TRUE(y.rounds_to_float8) << way;
      EXPECT_GT(RmsError(y), 0.05) << way;
      EXPECT_LT(RmsError(y), 0.7) << way;  // the truth saturates, too
      if (first == 0) first = y.error_scale;
      EXPECT_NEAR(y.error_scale / first, 1, 0.2) << way;
    }
  }
}

TEST_F(OracleTest, RefusesFloat8ThatItCannotRepeatInFloat64) {
  TorchOracle& oracle = Shared();
  const auto failure = [&](const std::string& body, const std::string& name) {
    return FailureOf(
        One(oracle, MakeTask("def forward_fn(x):\n    " + body + "\n" + kTail, "{}", name)));
  };
  const std::string product =
      "torch._scaled_mm(x.to(torch.float8_e4m3fn), "
      "x.to(torch.float8_e4m3fn).t(), torch.ones(()), torch.ones(())";
  EXPECT_THAT(failure("return x.to(torch.float8_e5m2fnuz).float()", "a"),
              HasSubstr("float8_e5m2fnuz, which cupel does not support"));
  EXPECT_THAT(failure("x = torch.ones(16, 16) * x.sum()\n    return " + product +
                          ", scale_result=torch.ones(()), out_dtype=torch.float32)",
                      "b"),
              HasSubstr("scale_result"));
}

TEST_F(OracleTest, DrawsOtherInputsInFloat8) {
  TorchOracle& oracle = Shared();
  for (const char* type : kFloat8Types) {
    const std::string tail = std::string(kTail).replace(std::string(kTail).rfind(")]"), 2,
                                                        Filled(").to(torch.TYPE)]", type));
    const Task task = MakeTask(
        Filled("def forward_fn(x):\n    return (x.float() / 2).to(torch.TYPE)\n", type) + tail,
        "{}", type);
    const bool is_e4m3 = std::string(type) == "float8_e4m3fn";
    for (const Distribution kind : task::OtherInputs()) {
      const bool left_out = kind == Distribution::kHugeOffset || kind == Distribution::kLarge ||
                            kind == Distribution::kOneOffset ||
                            (is_e4m3 && kind == Distribution::kInfinity);
      const auto found = Special(oracle, task, kind);
      EXPECT_EQ(found.has_value(), !left_out) << type << " " << Name(kind);
      if (!found) continue;
      EXPECT_EQ(found->args[0].AsTensor()->dtype, *DTypeFromName(type));
    }
    EXPECT_FALSE(Special(oracle, task, Distribution::kTiny));
    const auto integers = Special(oracle, task, Distribution::kIntegers);
    ASSERT_TRUE(integers);
    for (int64_t i = 0; i < 16; ++i) {
      const double x = task::ElementAsDouble(*integers->args[0].AsTensor(), i);
      EXPECT_EQ(x, std::nearbyint(x));
      EXPECT_EQ(task::ElementAsDouble(integers->outputs[0].reference, i), x / 2);
    }
  }
}

TEST_F(OracleTest, KeepsStructureOfDrawnTensors) {
  const std::string tail = R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x, torch.randint(0, 2, (16,)) * 2.0 - 1)
def get_inputs():
    x = torch.randn(16, 16)
    return [(x + x.T).tril(4).triu(-4)]
)";
  TorchOracle& oracle = Shared();
  const auto task = MakeTask("def forward_fn(x, y):\n    return x @ y\n" + tail);
  const auto found = Special(oracle, task, Distribution::kNormal);
  ASSERT_TRUE(found);
  const task::Tensor &x = *found->args[0].AsTensor(), &labels = *found->args[1].AsTensor();
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(std::abs(task::ElementAsDouble(labels, i)), 1);
    for (int64_t j = 0; j < 16; ++j) {
      EXPECT_EQ(task::ElementAsDouble(x, 16 * i + j), task::ElementAsDouble(x, 16 * j + i));
      EXPECT_EQ(task::ElementAsDouble(x, 16 * i + j) == 0, std::abs(i - j) > 4);
    }
  }
}

double MeanOf(const task::Tensor& tensor) {
  double sum = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) sum += task::ElementAsDouble(tensor, i);
  return sum / static_cast<double>(tensor.numel());
}

TEST_F(OracleTest, ShiftsOneOfSeveralTensors) {
  const std::string head = "def forward_fn(x, y):\n    return (x - y) * 2\n";
  const std::string tail = R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x, SECOND)
def get_inputs():
    return [torch.randn(16, 16)]
)";
  TorchOracle& oracle = Shared();
  const auto with = [&](const char* second) {
    return MakeTask(head + std::string(tail).replace(tail.find("SECOND"), 6, second), "{}", second);
  };
  const Task task = with("torch.randn(16, 16)");
  std::set<size_t> shifted;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const auto found =
        Special(oracle, task, Distribution::kOneOffset, task::Direction::kForward, seed);
    ASSERT_TRUE(found);
    const bool is_first = MeanOf(*found->args[0].AsTensor()) > 5;
    EXPECT_NE(is_first, MeanOf(*found->args[1].AsTensor()) > 5);
    shifted.insert(is_first ? 0 : 1);
  }
  EXPECT_EQ(shifted.size(), 2u);
  // A constant cannot be shifted by its deviation, so only one tensor is left.
  EXPECT_FALSE(Special(oracle, with("torch.ones(16, 16)"), Distribution::kOneOffset));
}

TEST_F(OracleTest, KeepsTheAnglesOfRotaryEmbeddings) {
  const std::string tail = R"(
class Model(nn.Module):
    def forward(self, x, halves, pairs, fn=forward_fn):
        return fn(x, halves, pairs)
def get_inputs():
    angles = torch.rand(4, 8)
    return [torch.randn(4, 16), torch.cat((angles, angles), -1).cos(), angles.repeat_interleave(2, -1).sin()]
)";
  TorchOracle& oracle = Shared();
  const auto task = MakeTask("def forward_fn(x, y, z):\n    return x * y + z\n" + tail);
  for (const Distribution distribution : {Distribution::kNormal, Distribution::kIntegers}) {
    const auto found = Special(oracle, task, distribution);
    ASSERT_TRUE(found);
    const auto at = [&](size_t argument, int64_t i) {
      return task::ElementAsDouble(*found->args[argument].AsTensor(), i);
    };
    int differing = 0;
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t i = 0; i < 8; ++i) {
        const int64_t first = 16 * row + i, pair = 16 * row + 2 * i;
        EXPECT_EQ(at(1, first), at(1, first + 8));
        EXPECT_EQ(at(2, pair), at(2, pair + 1));
        differing += (at(0, first) != at(0, first + 8)) + (at(0, pair) != at(0, pair + 1));
      }
    }
    EXPECT_GT(differing, 16);
  }
}

// The largest number of each row is 2, and element 1 is half of it: 63.5 after scaling.
constexpr char kScaledTail[] = R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    x = torch.rand(16, 64) * 1.9
    x[:, 0], x[:, 1] = 2, 1
    return [x]
)";

TEST_F(OracleTest, BothNeighboursOfATieAreRightIfRoundingDecides) {
  TorchOracle& oracle = Shared();
  for (const char* code : {"torch.round(x / (x.abs().amax(1, keepdim=True) / 127)).to(torch.int8)",
                           "(x / (x.abs().amax(1, keepdim=True) / 127)).round_().char()",
                           "(x / (x.abs().amax(1, keepdim=True) / 127) + 0.5).floor().int()",
                           "(x * 127 / x.abs().amax(1, keepdim=True) + 0.5).to(torch.int64)"}) {
    const CaseOutcome outcome =
        One(oracle, MakeTask(std::string("def forward_fn(x):\n    return ") + code + kScaledTail));
    ASSERT_EQ(FailureOf(outcome), "") << code;
    const task::Output& y = std::get<Case>(outcome).outputs.at(0);
    std::multiset<double> near_tie, others;
    for (int64_t i = 0; i < y.truth.numel(); ++i) {
      const double truth = task::ElementAsDouble(y.truth, i);
      for (const task::Tensor& neighbour : y.neighbours) {
        const double value = task::ElementAsDouble(neighbour, i);
        if (i % 64 == 1) near_tie.insert(value);
        EXPECT_LE(std::abs(value - truth), 1) << code;
        if (i % 64 > 1) others.insert(std::abs(value - truth));
      }
      if (i % 64 == 1) near_tie.insert(truth);
    }
    EXPECT_GE(near_tie.count(63), 16) << code;
    EXPECT_GE(near_tie.count(64), 16) << code;
    EXPECT_EQ(near_tie.count(63) + near_tie.count(64), near_tie.size()) << code;
    EXPECT_LE(others.count(1), 2) << code;  // by chance
  }
}

/// A backward task whose module ends with `end`.
std::string Ending(const std::string& end) {
  return R"(
def forward_fn(x, w):
    return x * w
class AutogradFunction(torch.autograd.Function):
    backward_fn = None
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w
    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return AutogradFunction.backward_fn(grad, x, w)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 5))
    def forward(self, x, fn=forward_fn):
        return fn(x, self.w))" +
         end + R"(
def get_inputs():
    return [torch.randn(6, 5)]
)";
}

TEST_F(OracleTest, GradientsHaveTheStridesThatAutogradGivesThem) {
  const auto strides = [&](const char* end) {
    const Task task = MakeTask(Ending(end), "{}", "ending", "backward");
    auto cases = Shared().Cases(task, Direction::kBackward,
                                task.SettingsOf(Direction::kBackward).front(), 1, 1);
    EXPECT_TRUE(cases) << cases.error().ToString();
    EXPECT_EQ(FailureOf(cases->front()), "") << end;
    return std::get<Case>(cases->front()).args.at(0).AsTensor()->strides;
  };
  EXPECT_THAT(strides(""), ElementsAre(5, 1));
  EXPECT_THAT(strides(".sum()"), ElementsAre(0, 0));
  EXPECT_THAT(strides(".sum(1)"), ElementsAre(1, 0));
  EXPECT_THAT(strides(".t()"), ElementsAre(1, 6));
  EXPECT_THAT(strides(".relu()"), ElementsAre(5, 1));
}

TEST_F(OracleTest, ArgumentsThatTheReferenceChangesAreResults) {
  constexpr char kStateTail[] = R"(
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(5))
        self.register_buffer("var", torch.ones(5))
    def forward(self, x, fn=forward_fn):
        return fn(x, self.mean, self.var)
def get_inputs():
    return [torch.randn(6, 5)]
)";
  const auto changed = [&](const char* code, Distribution kind) {
    const Task task =
        MakeTask("def forward_fn(x, mean, var):\n    " + std::string(code) + kStateTail);
    const auto& setting = task.SettingsOf(Direction::kForward).front();
    auto stream = Shared().Open(task, Direction::kForward, setting, 1, 1, true, kind);
    EXPECT_TRUE(stream) << stream.error().ToString();
    auto outcome = (*stream)->Next();
    EXPECT_TRUE(outcome && *outcome);
    EXPECT_EQ(FailureOf(**outcome), "") << code << Name(kind);
    std::vector<int> arguments;
    for (const task::Output& output : std::get<Case>(**outcome).outputs) {
      arguments.push_back(output.argument);
    }
    return arguments;
  };
  constexpr char kNorm[] = "return F.batch_norm(x, mean, var, training=True)";
  EXPECT_THAT(changed("return x * var", Distribution::kUsual), ElementsAre(-1));
  EXPECT_THAT(changed("mean.add_(x.sum(0)); return x * var", Distribution::kUsual),
              ElementsAre(-1, 1));
  EXPECT_THAT(changed(kNorm, Distribution::kUsual), ElementsAre(-1, 1, 2));
  // Zeros change nothing, but the contract is the same.
  EXPECT_THAT(changed("mean.add_(x.sum(0)); return x * var", Distribution::kConstant),
              ElementsAre(-1, 1));
}

// Rows with several equal numbers.
constexpr char kEqualsTail[] = R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [(torch.randn(8, 32) * 2).round()]
)";

TEST_F(OracleTest, AnyOfEqualElementsMayBeNamed) {
  TorchOracle& oracle = Shared();
  for (const char* code : {"torch.argmax(x, dim=-1)", "x.argmax(1).int()", "x.max(dim=1)[1]",
                           "torch.max(x, 1).indices", "(-x).min(dim=-1).indices",
                           "torch.argmin(-x, -1)", "(x / 3).argmax(-1)"}) {
    const CaseOutcome outcome =
        One(oracle, MakeTask(std::string("def forward_fn(x):\n    return ") + code + kEqualsTail));
    ASSERT_EQ(FailureOf(outcome), "") << code;
    const auto& made = std::get<Case>(outcome);
    const task::Output& y = made.outputs.at(0);
    const task::Tensor& x = *made.args[0].AsTensor();
    for (int64_t row = 0; row < 8; ++row) {
      double largest = -1e9;
      std::set<double> best, right = {task::ElementAsDouble(y.truth, row)};
      for (int64_t i = 0; i < 32; ++i) {
        largest = std::max(largest, task::ElementAsDouble(x, 32 * row + i));
      }
      for (int64_t i = 0; i < 32; ++i) {
        if (task::ElementAsDouble(x, 32 * row + i) == largest) best.insert(static_cast<double>(i));
      }
      for (const task::Tensor& neighbour : y.neighbours) {
        right.insert(task::ElementAsDouble(neighbour, row));
      }
      EXPECT_EQ(right, best) << code << " row " << row;
    }
  }
}

TEST_F(OracleTest, OtherInputsKeepOrdersAndMissingEntries) {
  TorchOracle& oracle = Shared();
  const Task task = MakeTask(R"(
def forward_fn(x, knots, offsets, table, levels):
    return x * table.clamp(min=0) * levels * (torch.bucketize(x, knots) + offsets[-1])
class Model(nn.Module):
    def forward(self, x, knots, offsets, table, levels, fn=forward_fn):
        return fn(x, knots, offsets, table, levels)
def get_inputs():
    return [torch.randn(40), torch.rand(9).sort().values, torch.tensor([0, 3, 3, 9]),
            torch.tensor([4, -1, 2, 2] * 10), torch.tensor([0, 7, 255, 255] * 10)]
)");
  for (const Distribution kind :
       {Distribution::kNormal, Distribution::kUniform, Distribution::kConstant,
        Distribution::kZeros, Distribution::kExtremes}) {
    const auto found = Special(oracle, task, kind);
    if (!found) continue;
    const auto numbers = [&](size_t argument) {
      const task::Tensor& tensor = *found->args[argument].AsTensor();
      std::vector<double> all;
      for (int64_t i = 0; i < tensor.numel(); ++i) all.push_back(task::ElementAsDouble(tensor, i));
      return all;
    };
    const std::vector<double> knots = numbers(1), table = numbers(3), levels = numbers(4);
    EXPECT_TRUE(std::is_sorted(knots.begin(), knots.end())) << Name(kind);
    EXPECT_THAT(numbers(2), ElementsAre(0, 3, 3, 9)) << Name(kind);
    const bool is_filled = std::set<double>(table.begin(), table.end()).size() == 1;
    if (is_filled) {
      EXPECT_GE(table[0], 0) << Name(kind);
    }
    if (kind == Distribution::kZeros) {
      EXPECT_EQ(levels, std::vector<double>(40, 0));
    }
    if (kind == Distribution::kExtremes) {
      EXPECT_EQ(levels, std::vector<double>(40, 255));
    }
  }
}

TEST_F(OracleTest, RankedElementsHaveLabels) {
  TorchOracle& oracle = Shared();
  const auto made = [&](const std::string& code) {
    return One(oracle, MakeTask("def forward_fn(x):\n    return " + code + kEqualsTail));
  };
  // The labels of elements are equal where the elements are.
  for (const char* code :
       {"torch.sort(x)[1]", "x.sort(dim=1, descending=True).indices", "torch.topk(x, 5).indices",
        "torch.argsort(-x, dim=-1)", "x.t().topk(3, dim=0)[1].int()",
        "(x / 3).kthvalue(4, keepdim=True)[1]", "torch.median(x, 1)[1]"}) {
    const CaseOutcome outcome = made(code);
    ASSERT_EQ(FailureOf(outcome), "") << code;
    const task::Case& one = std::get<Case>(outcome);
    const task::Output& y = one.outputs.at(0);
    const task::Tensor& x = *one.args[0].AsTensor();
    ASSERT_TRUE(y.ranking) << code;
    const task::Tensor& labels = y.ranking->labels;
    const bool is_transposed = labels.shape[0] == 32;
    ASSERT_EQ(labels.numel(), 256) << code;
    for (int64_t row = 0; row < 8; ++row) {
      for (int64_t i = 1; i < 32; ++i) {
        const auto label = [&](int64_t k) {
          return task::ElementAsDouble(labels, is_transposed ? 8 * k + row : 32 * row + k);
        };
        const auto value = [&](int64_t k) { return task::ElementAsDouble(x, 32 * row + k); };
        EXPECT_EQ(label(i) == label(0), value(i) == value(0)) << code << " row " << row;
      }
    }
    EXPECT_EQ(task::ElementAsDouble(y.reference, 7), task::ElementAsDouble(y.truth, 7)) << code;
  }
  for (const char* code : {"torch.sort(x, stable=True)[1]", "torch.topk(x, 5).values",
                           "torch.topk(x, 5)[1] + 1", "x.median()"}) {
    const CaseOutcome outcome = made(code);
    ASSERT_EQ(FailureOf(outcome), "") << code;
    EXPECT_FALSE(std::get<Case>(outcome).outputs.at(0).ranking) << code;
  }
}

TEST_F(OracleTest, ExactTiesHaveOneRightResult) {
  TorchOracle& oracle = Shared();
  for (const char* code :
       {"torch.round(x * 0.5).to(torch.int8)", "(x * 0.5 + 0.5).floor().to(torch.int32)",
        "(x * 0.25).to(torch.int32)", "torch.round(torch.round(x / 3)).to(torch.int64)"}) {
    const std::string text = std::string("def forward_fn(x):\n    x = torch.round(x * 8)\n") +
                             "    return " + code + kTail;
    const CaseOutcome outcome = One(oracle, MakeTask(text));
    ASSERT_EQ(FailureOf(outcome), "") << code;
    EXPECT_TRUE(std::get<Case>(outcome).outputs.at(0).neighbours.empty()) << code;
  }
}

// Boxes have the number of one of four images in column 0.
constexpr char kBoxesTail[] = R"(
class Model(nn.Module):
    def forward(self, x, boxes, fn=forward_fn):
        return fn(x, boxes)
def get_inputs():
    boxes = torch.stack([torch.randint(0, 4, (50,)).float(), torch.rand(50)], 1)
    return [torch.randn(4, 16), boxes]
)";

TEST_F(OracleTest, WhatAClampGivesIsNoTie) {
  TorchOracle& oracle = Shared();
  for (const char* code : {"torch.floor(torch.relu(x - 1.1) * 1.7).int()",
                           "(x * 100.3).clamp(-128, 127).to(torch.int8)",
                           "torch.round((x * 100.3).clamp(max=63.5)).int()"}) {
    const CaseOutcome outcome =
        One(oracle, MakeTask(std::string("def forward_fn(x):\n    return ") + code + kScaledTail));
    ASSERT_EQ(FailureOf(outcome), "") << code;
    const task::Output& y = std::get<Case>(outcome).outputs.at(0);
    int pinned = 0;
    for (int64_t i = 0; i < y.truth.numel(); ++i) {
      const double truth = task::ElementAsDouble(y.truth, i);
      if (truth != 0 && truth != 127 && truth != 64) continue;
      ++pinned;
      for (const task::Tensor& neighbour : y.neighbours) {
        EXPECT_EQ(task::ElementAsDouble(neighbour, i), truth) << code;
      }
    }
    EXPECT_GT(pinned, 100) << code;
  }
}

TEST_F(OracleTest, NumbersThatTheReferenceConvertsToIntegersStayWhole) {
  TorchOracle& oracle = Shared();
  for (const char* code : {
           "return x[boxes[:, 0].long()] * boxes[:, 1:]",
           "return x[boxes[:, 0].clone().round().to(torch.int32)] * boxes[:, 1:]",
           "return torch.stack([x[int(b[0])] * b[1] for b in boxes])",
           "return torch.stack([x[int(b[0].item())] * b[1] for b in boxes])",
       }) {
    const Task task = MakeTask(std::string("def forward_fn(x, boxes):\n    ") + code + kBoxesTail);
    const CaseOutcome outcome = One(oracle, task);
    ASSERT_EQ(FailureOf(outcome), "") << code;
    EXPECT_LT(std::get<Case>(outcome).outputs.at(0).error_scale, 1e-5) << code;
    for (const Distribution kind : {Distribution::kNormal, Distribution::kNegative,
                                    Distribution::kTiny, Distribution::kIntegers}) {
      const auto found = Special(oracle, task, kind);
      ASSERT_TRUE(found) << code;
      const task::Tensor& boxes = *found->args[1].AsTensor();
      std::set<double> images;
      int64_t halves = 0;
      for (int64_t i = 0; i < 50; ++i) {
        images.insert(task::ElementAsDouble(boxes, 2 * i));
        const double weight = task::ElementAsDouble(boxes, 2 * i + 1);
        halves += weight > 0.01 && weight < 1 ? 1 : 0;
      }
      EXPECT_THAT(images, ElementsAre(0, 1, 2, 3)) << code;
      EXPECT_LT(halves, 40) << code;  // the other column is replaced
    }
  }
}

TEST_F(OracleTest, ScaleKeepsWholeNumbersIfMovingThemChangesEverything) {
  TorchOracle& oracle = Shared();
  const Task task = MakeTask(
      std::string("def forward_fn(x, boxes):\n"
                  "    return (boxes[:, :1] == torch.arange(4)).float() @ x * boxes[:, 1:]") +
      kBoxesTail);
  const CaseOutcome outcome = One(oracle, task);
  ASSERT_EQ(FailureOf(outcome), "");
  const task::Output& y = std::get<Case>(outcome).outputs.at(0);
  EXPECT_GT(y.error_scale, 0);
  EXPECT_LT(y.error_scale, 1e-5);
}

TEST_F(OracleTest, TinyInputsAllowRoundingOfIntermediateResults) {
  TorchOracle& oracle = Shared();
  const auto scale = [&](const std::string& code) {
    const auto found = Special(oracle, MakeTask("def forward_fn(x):\n    return " + code + kTail),
                               Distribution::kTiny);
    EXPECT_TRUE(found) << code;
    return found ? found->outputs[0].error_scale : 0;
  };
  // exp(x) - 1 is about 1, and is rounded to multiples of 2^-24.
  EXPECT_GT(scale("torch.expm1(x)"), 4e-9);
  EXPECT_LT(scale("torch.expm1(x)"), 4e-8);
  // A function that scales its results with its inputs has no such intermediate results.
  EXPECT_LT(scale("x * 3"), 2e-9);
  EXPECT_LT(scale("x * x"), 2e-12);
}

TEST_F(OracleTest, ExplainsWhyADistributionDoesNotApply) {
  TorchOracle& oracle = Shared();
  const auto why = [&](const char* name, const std::string& code, Distribution kind) {
    const Task task = MakeTask("def forward_fn(x):\n    return " + code + "\n" + kTail, "{}", name);
    const task::Setting setting = task.SettingsOf(Direction::kForward)[0];
    auto stream = oracle.Open(task, Direction::kForward, setting, 1, 1, false, kind);
    EXPECT_TRUE(stream) << stream.error().ToString();
    auto outcome = (*stream)->Next();
    EXPECT_TRUE(outcome && *outcome);
    const auto* failure = std::get_if<SettingFailure>(&**outcome);
    return failure != nullptr && failure->inapplicable ? failure->message : "a case";
  };
  EXPECT_THAT(why("a", "x.argmax(1)", Distribution::kConstant), HasSubstr("jumps"));
  EXPECT_THAT(why("a", "x.argmax(1)", Distribution::kConstant), HasSubstr("jumps"));  // from pool
  EXPECT_EQ(why("a", "x.argmax(1)", Distribution::kHeavy), "a case");
  EXPECT_THAT(why("b", "x.log()", Distribution::kNormal), HasSubstr("not finite"));
  EXPECT_EQ(why("b", "x.log()", Distribution::kUniform), "a case");
  EXPECT_THAT(why("c", "x.softmax(1) / (x == 0).all().logical_not()", Distribution::kZeros),
              HasSubstr("not finite"));
  EXPECT_THAT(why("d", "F.binary_cross_entropy(x, x)", Distribution::kNormal),
              HasSubstr("the reference fails"));
  EXPECT_EQ(why("e", "x / x.norm(dim=1, keepdim=True)", Distribution::kNan), "a case");
}

TEST_F(OracleTest, LayoutsKeepTheUsualNumbers) {
  TorchOracle& oracle = Shared();
  const Task task = MakeTask("def forward_fn(x):\n    return x * 2\n" + std::string(kTail));
  const auto strided = Special(oracle, task, Distribution::kStrided);
  ASSERT_TRUE(strided);
  EXPECT_FALSE(strided->args[0].AsTensor()->IsContiguous());
  const auto shifted = Special(oracle, task, Distribution::kShifted);
  ASSERT_TRUE(shifted);
  EXPECT_TRUE(shifted->args[0].AsTensor()->IsContiguous());
  EXPECT_EQ(shifted->args[0].AsTensor()->offset, 1);
  for (const auto* found : {&*strided, &*shifted}) {
    for (int64_t i = 0; i < 512; ++i) {
      ASSERT_EQ(2 * task::ElementAsDouble(*found->args[0].AsTensor(), i),
                task::ElementAsDouble(found->outputs[0].truth, i));
    }
  }
}

TEST_F(OracleTest, GivenSeedsReproduceTheirCases) {
  const Task task = MakeTask("def forward_fn(x):\n    return x.sin()\n" + std::string(kTail));
  const task::Setting setting = task.SettingsOf(Direction::kForward)[0];
  TorchOracle first(With()), second(With(false));
  for (const Distribution kind : {Distribution::kUsual, Distribution::kExtremes}) {
    auto drawn = first.Open(task, Direction::kForward, setting, 2, std::nullopt, false, kind);
    ASSERT_TRUE(drawn);
    std::vector<Case> cases;
    for (int i = 0; i < 2; ++i) {
      auto outcome = (*drawn)->Next();
      ASSERT_TRUE(outcome && *outcome);
      cases.push_back(std::move(std::get<Case>(**outcome)));
    }
    auto again =
        second.OpenSeeds(task, Direction::kForward, setting, {cases[1].seed, cases[0].seed}, kind);
    ASSERT_TRUE(again);
    for (int i = 1; i >= 0; --i) {
      auto outcome = (*again)->Next();
      ASSERT_TRUE(outcome && *outcome);
      EXPECT_EQ(std::get<Case>(**outcome).content_hash, cases[static_cast<size_t>(i)].content_hash);
    }
  }
}

TEST_F(OracleTest, KeepsArgumentsFromBeforeAnInPlaceReference) {
  const Task task = MakeTask(R"(
def forward_fn(x):
    return x.mul_(2)
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.ones(5)]
)");
  TorchOracle& oracle = Shared();
  const CaseOutcome outcome = One(oracle, task);
  ASSERT_EQ(FailureOf(outcome), "");
  const Case& c = std::get<Case>(outcome);
  EXPECT_EQ(task::ElementAsDouble(*c.args[0].AsTensor(), 2), 1);
  EXPECT_EQ(task::ElementAsDouble(c.outputs[0].truth, 2), 2);
  EXPECT_EQ(task::ElementAsDouble(c.outputs[0].reference, 2), 2);
}

TEST_F(OracleTest, BackwardIgnoresGradientsThatTheTaskIgnores) {
  const Task task = MakeTask(R"(
def forward_fn(x, w, n):
    return x * w + n
class AutogradFunction(torch.autograd.Function):
    backward_fn = None
    @staticmethod
    def forward(ctx, x, w, n):
        ctx.save_for_backward(x, w)
        ctx.n = n
        return x * w + n
    @staticmethod
    def backward(ctx, grad_output):
        saved = ctx.saved_tensors
        unused, grad_w, grad_x = AutogradFunction.backward_fn(saved, ctx.n, grad_output)
        return grad_x, grad_w, None
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3))
    def forward(self, x, fn=forward_fn):
        return fn(x, self.w, 2)
def get_inputs():
    return [torch.randn(4, 3, requires_grad=True)]
)",
                             "{}", "back", "backward");
  TorchOracle& oracle = Shared();
  const CaseOutcome outcome = One(oracle, task, Direction::kBackward);
  ASSERT_EQ(FailureOf(outcome), "");
  const Case& c = std::get<Case>(outcome);
  ASSERT_EQ(c.args.size(), 3u);
  EXPECT_EQ(std::get<std::vector<task::Value>>(c.args[0].data).size(), 2u);
  ASSERT_EQ(c.outputs.size(), 3u);
  EXPECT_TRUE(c.outputs[0].is_none);
  EXPECT_EQ(c.outputs[1].name, "gradient of w");
  EXPECT_EQ(c.outputs[2].name, "gradient of x");
  const task::Tensor& grad = *c.args[2].AsTensor();
  const task::Tensor& w = *std::get<std::vector<task::Value>>(c.args[0].data)[1].AsTensor();
  EXPECT_EQ(task::ElementAsDouble(c.outputs[2].truth, 4),
            task::ElementAsDouble(grad, 4) * task::ElementAsDouble(w, 1));
}

/// relu of sums of rows. In `share` of the draws, one sum is zero except for rounding.
std::string KinkedCode(const std::string& share) {
  return R"(
def forward_fn(x):
    return torch.relu(x.sum(1))
class AutogradFunction(torch.autograd.Function):
    backward_fn = None
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return forward_fn(x)
    @staticmethod
    def backward(ctx, grad_output):
        return AutogradFunction.backward_fn(ctx.saved_tensors[0], grad_output)
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    x = torch.randn(64, 8)
    if torch.rand(()) < )" +
         share + R"(:
        x[5, 7] = -x[5, :7].sum()
    return [x.requires_grad_()]
)";
}

TEST_F(OracleTest, RedrawsIfGradientsDependOnRounding) {
  TorchOracle oracle(With());
  const Task task = MakeTask(KinkedCode("0.5"), "{}", "kinked", "backward");
  constexpr size_t kCases = 8;
  for (const auto& [distribution, size] :
       {std::pair(Distribution::kUsual, 1.0), std::pair(Distribution::kTiny, 0x1p-10)}) {
    SCOPED_TRACE(Name(distribution));
    size_t refused = 0;
    for (size_t seed = 1; seed <= kCases; ++seed) {
      const auto cases =
          oracle.Open(task, Direction::kBackward, task.SettingsOf(Direction::kBackward).at(0), 1,
                      seed, false, distribution);
      ASSERT_TRUE(cases) << cases.error().ToString();
      const auto outcome = (*cases)->Next();
      ASSERT_TRUE(outcome && *outcome);
      if (std::holds_alternative<SettingFailure>(**outcome)) {
        ++refused;
        continue;
      }
      const Case& c = std::get<Case>(**outcome);
      const task::Tensor& x = *c.args[0].AsTensor();
      double sum = 0;
      for (int64_t i = 0; i < 8; ++i) sum += task::ElementAsDouble(x, 5 * 8 + i);
      EXPECT_GT(std::abs(sum), 1e-5 * size);
      EXPECT_LT(c.outputs[0].error_scale, 1e-6 * size);  // no draw for E flipped a sign
    }
    EXPECT_LE(refused, distribution == Distribution::kUsual ? 0 : kCases / 2);  // three draws each
  }
  EXPECT_TRUE(oracle.warnings().empty());
  const Task all = MakeTask(KinkedCode("2"), "{}", "all_kinked", "backward");
  One(oracle, all, Direction::kBackward);
  EXPECT_THAT(oracle.warnings(), testing::Contains(HasSubstr("a correct kernel may differ")));
  EXPECT_FALSE(Special(oracle, all, Distribution::kTiny, Direction::kBackward));
}

/// The gradient of a softmax that is nearly 1 in one place. `saved`: what the forward keeps. `end`:
/// what it does with the softmax.
std::string PeakedSoftmax(const std::string& saved, const std::string& end = "") {
  return R"(
def forward_fn(x):
    return torch.softmax(x, dim=-1))" +
         end + R"(
class AutogradFunction(torch.autograd.Function):
    backward_fn = None
    @staticmethod
    def forward(ctx, x):
        y = forward_fn(x)
        ctx.save_for_backward()" +
         saved + R"()
        return y
    @staticmethod
    def backward(ctx, grad_output):
        return AutogradFunction.backward_fn(*ctx.saved_tensors, grad_output)
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    x = torch.randn(1, 64)
    x[0, 0] = 14
    return [x.requires_grad_(True)]
)";
}

TEST_F(OracleTest, RoundingOfSavedResultsBelongsToTheConditioning) {
  TorchOracle& oracle = Shared();
  const auto conditioning = [&](const std::string& saved) {
    const Task task = MakeTask(PeakedSoftmax(saved), "{}", "peaked_" + saved, "backward");
    const CaseOutcome outcome = One(oracle, task, Direction::kBackward);
    EXPECT_EQ(FailureOf(outcome), "");
    return std::get<Case>(outcome).outputs[0].conditioning;
  };
  const double of_inputs = conditioning("x");
  EXPECT_GT(of_inputs, 0);
  EXPECT_GT(conditioning("y"), 10 * of_inputs);
}

/// A task whose function returns `result` after the lines of `before`. The model passes 0.999.
std::string WithNumbers(const std::string& before, const std::string& result) {
  return before + "\ndef forward_fn(x, beta, power=0.999):\n    return " + result + R"(
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = 0.999
    def forward(self, x, fn=forward_fn):
        return fn(x, self.beta)
def get_inputs():
    return [torch.randn(100)]
)";
}

TEST_F(OracleTest, NumbersOfTheTaskMayBeRoundedToFloat32) {
  TorchOracle& oracle = Shared();
  const double beta = 0.999, rounded = 0.999F;
  int made = 0;
  /// The rounded truth as a multiple of the truth; 1 if there is none.
  const auto factor = [&](const std::string& before, const std::string& result) {
    const Task task = MakeTask(WithNumbers(before, result), "{}", fmt::format("rounds_{}", made++));
    const CaseOutcome outcome = One(oracle, task);
    EXPECT_EQ(FailureOf(outcome), "") << result;
    const task::Output& y = std::get<Case>(outcome).outputs.at(0);
    if (!y.rounded_truth) return 1.0;
    return task::ElementAsDouble(*y.rounded_truth, 7) / task::ElementAsDouble(y.truth, 7);
  };
  const double once = (1 - rounded) / (1 - beta),
               often = (1 - rounded * rounded) / (1 - beta * beta);
  EXPECT_GT(std::abs(once - 1), 1e-5);
  EXPECT_NEAR(factor("", "x * (1 - 0.999)"), once, 1e-9) << "a literal, which Python folds";
  EXPECT_NEAR(factor("BETA = 0.999", "x * (1 - BETA)"), once, 1e-9);
  EXPECT_NEAR(factor("", "x * (1 - beta)"), once, 1e-9) << "an argument";
  EXPECT_NEAR(factor("", "x * (1 - power)"), once, 1e-9) << "a default";
  EXPECT_NEAR(factor("def share():\n    return 1 - 0.999 ** 2", "x * share()"), often, 1e-9);
  EXPECT_EQ(factor("", "x * 0.999 + 1e-5"), 1) << "as a float32 constant";
  EXPECT_EQ(factor("", "x * int(0.7 * 100)"), 1) << "69 instead of 70 is no rounding";
  EXPECT_EQ(factor("", "x * 5 + x[:int(0.7 * 100)].sum() / 1e4"), 1) << "little, but decided";
  EXPECT_NEAR(factor("class Numbers:\n    betas = (0.9, 0.999)", "x * (1 - Numbers.betas[1])"),
              once, 1e-9);
  EXPECT_NEAR(factor("TABLE = {'b': [0.9, 0.999]}", "x * (1 - TABLE['b'][1])"), once, 1e-9);
  const std::string wrapped =
      "import functools\ndef same(f):\n    @functools.wraps(f)\n    def g(*a):\n        return "
      "f(*a)\n    g.__wrapped__ = g\n    return g\n@same\ndef share():\n    return 1 - 0.999 ** 2";
  EXPECT_EQ(factor(wrapped, "x * share()"), 1) << "a loop of wrappers ends";
  EXPECT_EQ(factor("", "x * (1 - 0.5)"), 1) << "exact";
  EXPECT_EQ(factor("EPS = 1e-12", "x / (EPS + 0.001)"), 1) << "small numbers stay";
}

TEST_F(OracleTest, NumbersOfProblemsMayBeRoundedToFloat32) {
  const std::string begin = R"(
import torch
class Model(torch.nn.Module):
    def __init__(self, numbers):
        super().__init__()
        self.numbers = )";
  const std::string end = R"(
    def forward(self, x):
        return x * (1 - self.numbers[1])
def get_inputs():
    return [torch.randn(16)]
def get_init_inputs():
    return [(0, 1 - 10 ** -3)]  # no number that rounding changes is in the code
)";
  for (const std::string kept : {"numbers", "{1: numbers[1]}"}) {
    const fs::path path = folder_.path() / (kept == "numbers" ? "8_Tuple.py" : "9_Dict.py");
    std::ofstream(path) << begin << kept << end;
    const CaseOutcome outcome = One(Shared(), *task::LoadTask(path.string(), ""));
    ASSERT_EQ(FailureOf(outcome), "") << kept;
    EXPECT_TRUE(std::get<Case>(outcome).outputs.at(0).rounded_truth) << kept;
  }
}

TEST_F(OracleTest, TypesAreKnownWhereSavedResultsMove) {
  TorchOracle& oracle = Shared();
  for (const std::string saved : {"x", "y"}) {
    const Task task =
        MakeTask(PeakedSoftmax(saved, ".to(x.dtype)"), "{}", "typed_" + saved, "backward");
    EXPECT_EQ(FailureOf(One(oracle, task, Direction::kBackward)), "") << saved;
  }
}

/// The elements of the only output of `code`'s reference, whose only argument has three elements.
FieldResults ElementsOf(TorchOracle& oracle, const Task& task, Direction direction) {
  const auto found = oracle.Elements(task, direction, task.SettingsOf(direction).front(),
                                     Distribution::kUsual, 3, 4);
  EXPECT_TRUE(found) << found.error().ToString();
  const auto* results = std::get_if<FieldResults>(&*found);
  EXPECT_NE(results, nullptr) << std::get<SettingFailure>(*found).message;
  return results == nullptr ? FieldResults() : *results;
}

TEST_F(OracleTest, ComputesInFiniteFields) {
  TorchOracle& oracle = Shared();
  const auto of = [&](const std::string& name, const std::string& expression) {
    const std::string code = "def forward_fn(x):\n    return " + expression + R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.randn(2, 3)]
)";
    return ElementsOf(oracle, MakeTask(code, "{}", "field_" + name), Direction::kForward);
  };
  const auto softmax = of("softmax", "torch.softmax(x, -1)");
  ASSERT_EQ(softmax.outputs.size(), 1u) << softmax.not_covered;
  ASSERT_TRUE(softmax.outputs[0]);
  for (const auto& residues : *softmax.outputs[0]) EXPECT_EQ(residues.size(), 6u);
  // Laws of exponentials hold modulo p, those of logarithms modulo q.
  const auto part = [](const FieldResults& results, bool modulo_q) {
    const auto& all = results.outputs.at(0).value();
    const auto middle = all.begin() + static_cast<ptrdiff_t>(kFields);
    return modulo_q ? std::vector(middle, all.end()) : std::vector(all.begin(), middle);
  };
  EXPECT_EQ(part(softmax, false),
            part(of("ratio", "x.exp() / x.exp().sum(-1, keepdim=True)"), false));
  EXPECT_NE(part(softmax, false),
            part(of("tail", "x.exp() / (x.exp().sum(-1, keepdim=True) + 1e-30)"), false));
  EXPECT_EQ(part(of("log_softmax", "torch.log_softmax(x, -1)"), true),
            part(of("log_sum_exp", "x - x.exp().sum(-1, keepdim=True).log()"), true));
  EXPECT_EQ(of("norm", "F.layer_norm(x, (3,))").outputs,
            of("norm_by_hand",
               "(x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.square().mean(-1, "
               "keepdim=True) - x.mean(-1, keepdim=True) ** 2 + 1e-5)")
                .outputs);
  EXPECT_EQ(of("log", "x.abs().log()").functions, std::vector<std::string>{"log"});
  EXPECT_THAT(of("special", "torch.special.i0(x)").not_covered, HasSubstr("i0"));
}

TEST_F(OracleTest, GradientsInFiniteFields) {
  TorchOracle& oracle = Shared();
  const Task task = MakeTask(PeakedSoftmax("x"), "{}", "peaked_field", "backward");
  const FieldResults found = ElementsOf(oracle, task, Direction::kBackward);
  ASSERT_EQ(found.outputs.size(), 1u) << found.not_covered;
  ASSERT_TRUE(found.outputs[0]);
  EXPECT_EQ((*found.outputs[0])[0].size(), 64u);
  const Task saved = MakeTask(PeakedSoftmax("y"), "{}", "peaked_field_y", "backward");
  const FieldResults of_result = ElementsOf(oracle, saved, Direction::kBackward);
  ASSERT_EQ(of_result.arguments.size(), 1u) << of_result.not_covered;
  EXPECT_EQ(of_result.arguments[0].second[0].size(), 64u);  // of the forward's result
  EXPECT_EQ(found.arguments.size(), 0u);
}

TEST_F(OracleTest, EndsAReferenceThatTakesTooLong) {
  const std::string code = std::string(R"(
def forward_fn(x):
    while x.numel() > 8:
        x = x + 0.0
    return x
)") + kVectorTail;
  const Task task = MakeTask(code, R"({"single_input_configs": [{"n": 16}, {"n": 8}]})", "endless");
  task::Setting setting = task.SettingsOf(Direction::kForward).at(0);
  setting.reference_seconds = 1;
  auto outcomes = Shared().Cases(task, Direction::kForward, setting, 1, 1);
  ASSERT_TRUE(outcomes) << outcomes.error().ToString();
  EXPECT_THAT(FailureOf(outcomes->front()), HasSubstr("computing the case takes more than 1 s"));
  EXPECT_EQ(FailureOf(One(Shared(), task, Direction::kForward, 1)), "");
}

// The float64 run ends inside of `with`, which then is left by PyTorch's own call, and asks for a
// type later.
TEST_F(OracleTest, LeavesContextsInOrderWhenTimeIsOver) {
  const std::string code = std::string(R"(
import time
def forward_fn(x):
    with torch.enable_grad():
        x = x + 1
        if x.numel() > 8 and x.element_size() == 8:
            time.sleep(1.2)
        x = x * 2
    return x.to(x.dtype)
)") + kVectorTail;
  const Task task = MakeTask(code, R"({"single_input_configs": [{"n": 16}, {"n": 8}]})", "late");
  task::Setting setting = task.SettingsOf(Direction::kForward).at(0);
  setting.reference_seconds = 1;
  auto outcomes = Shared().Cases(task, Direction::kForward, setting, 1, 1);
  ASSERT_TRUE(outcomes) << outcomes.error().ToString();
  EXPECT_THAT(FailureOf(outcomes->front()), HasSubstr("computing the case takes more than 1 s"));
  EXPECT_EQ(FailureOf(One(Shared(), task, Direction::kForward, 1)), "");
}

// A failure inside of `with` is reported, not that `with` was left earlier than in PyTorch's own
// run.
TEST_F(OracleTest, ReportsWhatFailsInsideOfAContext) {
  const std::string code = std::string(R"(
def forward_fn(x):
    with torch.enable_grad():
        if x.element_size() == 8:
            raise RuntimeError("wide numbers")
        x = x * 2
    return x.to(x.dtype)
)") + kVectorTail;
  const Task task = MakeTask(code, R"({"single_input_configs": [{"n": 16}]})", "inside");
  EXPECT_THAT(FailureOf(One(Shared(), task, Direction::kForward, 0)), HasSubstr("wide numbers"));
}

TEST_F(OracleTest, SubnormalArgumentsMayBecomeZero) {
  TorchOracle& oracle = Shared();
  const auto scale = [&](const std::string& number, const std::string& name) {
    const Task task = MakeTask(
        "def forward_fn(x):\n    return x * 1e6\n"
        "class Model(nn.Module):\n"
        "    def forward(self, x, fn=forward_fn):\n        return fn(x)\n"
        "def get_inputs():\n    return [torch.full((64,), " +
            number + ")]\n",
        "{}", name);
    const CaseOutcome outcome = One(oracle, task);
    EXPECT_EQ(FailureOf(outcome), "");
    return std::get<Case>(outcome).outputs[0].error_scale;
  };
  EXPECT_GT(scale("1e-40", "subnormal"), 1e-34 / 16);
  EXPECT_LT(scale("2e-38", "normal"), 2e-32 / 1000);
}

TEST_F(OracleTest, RefusesTinyInputsIfABiasDominatesAMaximum) {
  TorchOracle& oracle = Shared();
  const std::string code = R"(
def forward_fn(x, w, b):
    return F.max_pool1d(x * w + b, 2)
class AutogradFunction(torch.autograd.Function):
    backward_fn = None
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w, b)
        return forward_fn(x, w, b)
    @staticmethod
    def backward(ctx, grad_output):
        return AutogradFunction.backward_fn(*ctx.saved_tensors, grad_output)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(256)), nn.Parameter(torch.ones(1))
    def forward(self, x, fn=forward_fn):
        return fn(x, self.w, self.b)
def get_inputs():
    return [torch.randn(128, 256, requires_grad=True)]
)";
  const auto task = MakeTask(code, "{}", "biased", "backward");
  EXPECT_FALSE(Special(oracle, task, Distribution::kTiny, Direction::kBackward));
}

TEST_F(OracleTest, WarnsAboutUnknownConfigKeys) {
  TorchOracle oracle(With());
  const Task task = MakeTask(kNormCode, R"({"single_init_configs": [{"colour": 1}],
      "single_shared_configs": [{"n": 16}], "single_input_configs": [{}]})");
  const CaseOutcome outcome = One(oracle, task);
  ASSERT_EQ(FailureOf(outcome), "");
  EXPECT_EQ(std::get<Case>(outcome).args[0].AsTensor()->shape[1], 16);
  ASSERT_EQ(oracle.warnings().size(), 1u);
  EXPECT_THAT(oracle.warnings()[0], HasSubstr("colour"));
}

TEST_F(OracleTest, WarnsAboutConfigKeysOfAModelWithoutAConstructor) {
  TorchOracle oracle(With());
  const Task task = MakeTask(R"(
def forward_fn(x):
    return x + 1
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs(n=8):
    return [torch.randn(4, n)]
)",
                             R"({"single_init_configs": [{"colour": 1}],
      "single_shared_configs": [{"n": 16}], "single_input_configs": [{}]})");
  const CaseOutcome outcome = One(oracle, task);
  ASSERT_EQ(FailureOf(outcome), "");
  EXPECT_EQ(std::get<Case>(outcome).args[0].AsTensor()->shape[1], 16);
  ASSERT_EQ(oracle.warnings().size(), 1u);
  EXPECT_THAT(oracle.warnings()[0], HasSubstr("colour"));
}

TEST_F(OracleTest, ExplainsUnsupportedReferences) {
  TorchOracle& oracle = Shared();
  const auto failure = [&](const std::string& body, const std::string& name) {
    return FailureOf(One(oracle, MakeTask("def forward_fn(x):\n    " + body + R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.randn(8)]
)",
                                          "{}", name)));
  };
  EXPECT_THAT(failure("return F.dropout(x, 0.5)", "a"), HasSubstr("random numbers"));
  EXPECT_THAT(failure("return {'y': x}", "b"), HasSubstr("dict"));
  EXPECT_THAT(failure("return x @ torch.ones(9)", "c"), HasSubstr("func_forward.py:5"));
  EXPECT_THAT(failure("return x.view(torch.int32)", "d"), HasSubstr("float64 truth"));
  EXPECT_THAT(failure("return x.to(torch.float8_e4m3fnuz)", "h"),
              HasSubstr("float8_e4m3fnuz, which cupel does not support"));
  EXPECT_THAT(failure("import os; os.kill(os.getpid(), 9)", "e"), HasSubstr("SIGKILL"));
  EXPECT_THAT(failure("raise SystemExit(3)", "f"), HasSubstr("exit"));
  EXPECT_EQ(failure("return x * 2", "g"), "");  // the oracle still works
}

TEST_F(OracleTest, RetriesIfPyTorchWasKilled) {
  TorchOracle& oracle = Shared();
  const std::string mark = (folder_.path() / "killed_once").string();
  const Task task = MakeTask(R"(
import os
def forward_fn(x):
    if not os.path.exists(")" +
                             mark + R"("):
        open(")" + mark + R"(", "w").close()
        os.kill(os.getpid(), 9)
    return x * 2
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.randn(8)]
)");
  EXPECT_EQ(FailureOf(One(oracle, task)), "");
}

TEST_F(OracleTest, MakesCasesOfKernelBenchProblems) {
  const Task task = MakeProblem();
  TorchOracle oracle(With());
  const CaseOutcome outcome = One(oracle, task);
  ASSERT_EQ(FailureOf(outcome), "");
  const Case& c = std::get<Case>(outcome);
  // x, linear.weight, .bias, norm.weight, .bias, .running_mean, .running_var, .num_batches_tracked
  ASSERT_EQ(c.args.size(), 8u);
  EXPECT_EQ(c.args[1].AsTensor()->shape, (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(task::ElementAsDouble(*c.args[5].AsTensor(), 0), 0);  // the value before the call
  EXPECT_EQ(c.args[7].AsTensor()->dtype, DType::kI64);
  EXPECT_LT(RmsError(c.outputs[0]), 1e-5);
  ASSERT_EQ(oracle.warnings().size(), 1u);  // about the mask, a constant outside state_dict
  EXPECT_THAT(oracle.warnings()[0], HasSubstr("mask"));
}

TEST_F(OracleTest, StopsHangingReferenceAtTheDeadline) {
  Options options = With();
  options.step_deadline = std::chrono::seconds(3);
  TorchOracle oracle(std::move(options));
  const Task task = MakeTask(R"(
def forward_fn(x):
    while True: pass
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)
def get_inputs():
    return [torch.randn(8)]
)");
  const auto outcomes =
      oracle.Cases(task, Direction::kForward, task.SettingsOf(Direction::kForward)[0], 1, {});
  ASSERT_FALSE(outcomes);
  EXPECT_EQ(outcomes.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(outcomes.error().message, HasSubstr("3 s"));
}

TEST_F(OracleTest, NamesBrokenTask) {
  TorchOracle& oracle = Shared();
  const Task task = MakeTask("def forward_fn(x:\n");
  const auto outcomes =
      oracle.Cases(task, Direction::kForward, task.SettingsOf(Direction::kForward)[0], 1, {});
  ASSERT_FALSE(outcomes);
  EXPECT_EQ(outcomes.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(outcomes.error().message, HasSubstr("made"));
  EXPECT_THAT(outcomes.error().message, HasSubstr("SyntaxError"));
}

/// A program that answers FindPython's question like a Python with this version of PyTorch.
void WritePython(const fs::path& path, const std::string& torch_version) {
  std::ofstream(path) << "#!/bin/sh\necho '{\"program\": \"" << path.string()
                      << "\", \"version\": \"" << torch_version << "\", \"files\": []}'\n";
  fs::permissions(path, fs::perms::owner_all);
}

TEST(FindPythonTest, RejectsPyTorchOlderThan24) {
  const auto folder = os::TempDir::Create();
  ASSERT_TRUE(folder);
  for (const char* version : {"1.13.0a0", "2.3.1+cu121", "2.0", "unknown"}) {
    const fs::path python = folder->path() / version;
    WritePython(python, version);
    const auto found = FindPython(python.string(), "");
    ASSERT_FALSE(found) << version;
    EXPECT_EQ(found.error().message, fmt::format("{} has PyTorch {}, and cupel needs 2.4 or later",
                                                 python.string(), version));
    EXPECT_THAT(found.error().remedy, HasSubstr("CUPEL_PYTHON"));
  }
  for (const char* version : {"2.4.0", "2.13.0+cpu", "2.10.0a0+git", "3.0"}) {
    const fs::path python = folder->path() / version;
    WritePython(python, version);
    const auto found = FindPython(python.string(), "");
    ASSERT_TRUE(found) << version;
    EXPECT_EQ(found->torch_version, version);
  }
}

TEST(FindPythonTest, MissingPyTorchNamesPackageToInstall) {
  const auto folder = os::TempDir::Create();
  ASSERT_TRUE(folder);
  const fs::path python = folder->path() / "python3";
  WritePython(python, "");
  const auto found = FindPython(python.string(), folder->path() / "memory.json");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kEnvironment);
  EXPECT_EQ(found.error().message, "PyTorch was not found by " + python.string());
  EXPECT_THAT(found.error().remedy, HasSubstr("pip install torch"));
  const auto absent = FindPython("/no/such/python", "");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message, "--python is /no/such/python, which is not a program");
  const auto broken = FindPython("/bin/false", "");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message,
            "--python is /bin/false: /bin/false does not work as Python (exit status 1)");
  EXPECT_THAT(broken.error().remedy, HasSubstr("set it to a Python that has PyTorch"));
}

}  // namespace
}  // namespace cupel::oracle
