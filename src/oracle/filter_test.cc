// Tests the client of filter.py with this machine's PyTorch (reported as skipped if there is none),
// and with invalid replies.
// SPDX-License-Identifier: Apache-2.0
#include "oracle/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "oracle/filter_reply.h"
#include "oracle/python.h"
#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;
using task::Direction;
using task::Task;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kSeeds[] = {0, 1, 2, 3, 4};

/// One child serves all tests: PyTorch takes a second to start.
class FilterTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!FindPython("", "")) return;
    FilterOptions options;
    options.script = fs::path(CUPEL_SOURCE_DIR) / "src/oracle/py/filter.py";
    options.deadline = std::chrono::seconds(60);
    filter_ = new Filter(options);
  }
  static void TearDownTestSuite() {
    delete filter_;
    filter_ = nullptr;
  }
  FilterTest() : folder_(*os::TempDir::Create()) {}
  void SetUp() override {
    if (filter_ == nullptr) GTEST_SKIP() << "PyTorch was not found";
  }

  MeasureOutcome Outcome(const std::string& code, const std::string& direction = "forward") {
    const fs::path path = folder_.path() / "made";
    fs::create_directories(path);
    std::ofstream(path / ("func_" + direction + ".py"))
        << "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
        << code;
    std::ofstream(path / ("config_" + direction + ".json")) << "{}";
    const auto task = task::LoadTask(path.string(), "");
    EXPECT_TRUE(task) << task.error().message;
    return OutcomeOf(*task, direction == "forward" ? Direction::kForward : Direction::kBackward);
  }
  static MeasureOutcome OutcomeOf(const Task& task, Direction direction = Direction::kForward) {
    auto outcome = filter_->Measure(task, direction, task.SettingsOf(direction).at(0), kSeeds);
    EXPECT_TRUE(outcome) << outcome.error().ToString();
    return outcome ? std::move(*outcome) : MeasureOutcome(SettingFailure{"error"});
  }
  TaskMeasures Measures(const std::string& code, const std::string& direction = "forward") {
    return Take(Outcome(code, direction));
  }
  static TaskMeasures Take(MeasureOutcome outcome) {
    if (const auto* failure = std::get_if<SettingFailure>(&outcome)) {
      ADD_FAILURE() << failure->message;
    }
    if (const auto* much = std::get_if<TooMuch>(&outcome)) ADD_FAILURE() << much->message;
    auto* measures = std::get_if<TaskMeasures>(&outcome);
    if (measures != nullptr) return std::move(*measures);
    TaskMeasures none;
    none.outputs.emplace_back();
    return none;
  }
  /// "aten.relu 5 input": the operations that never matter.
  static std::vector<std::string> Redundant(const TaskMeasures& measures) {
    std::vector<std::string> names;
    for (const OperationMeasures& o : measures.redundant) {
      if (o.only_for.empty()) {
        names.push_back(o.name + " " + std::to_string(o.line) + " " + Name(o.how));
      }
    }
    return names;
  }
  static const ArgumentMeasures& Argument(const TaskMeasures& measures, const std::string& name) {
    const auto found = std::find_if(measures.arguments.begin(), measures.arguments.end(),
                                    [&name](const ArgumentMeasures& a) { return a.name == name; });
    static const ArgumentMeasures none;
    EXPECT_NE(found, measures.arguments.end()) << name;
    return found == measures.arguments.end() ? none : *found;
  }

  static inline Filter* filter_ = nullptr;
  os::TempDir folder_;
};

constexpr char kModel[] = R"py(
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 8))
        self.b = nn.Parameter(torch.zeros(6))
    def forward(self, x, fn=forward_fn):
        return fn(x, self.w, self.b)
def get_inputs():
    return [torch.randn(4, 8)]
)py";

TEST_F(FilterTest, HealthyTaskDependsOnEverything) {
  // The bias starts as zeros. The filter must not report it as unused.
  const TaskMeasures m = Measures(
      std::string("def forward_fn(x, w, b):\n    return torch.relu(F.linear(x, w) + b)\n") +
      kModel);
  const OutputMeasures& o = m.outputs.at(0);
  EXPECT_GT(*o.seeds_std, 0.1);
  EXPECT_GT(*o.inputs_std, 0.1);
  EXPECT_GT(*o.weights_std, 0.1);
  EXPECT_EQ(o.axes.size(), 2u);
  EXPECT_FALSE(o.constant);
  EXPECT_TRUE(m.weights_vary);
  for (const char* name : {"x", "w", "b"}) EXPECT_EQ(Argument(m, name).matters, true) << name;
  EXPECT_FALSE(Argument(m, "x").is_weight);
  EXPECT_TRUE(Argument(m, "b").is_weight);
  EXPECT_TRUE(Argument(m, "b").fixed);
  EXPECT_EQ(m.operations, 3);
  EXPECT_EQ(m.operations_tried, 3);
  EXPECT_THAT(Redundant(m), IsEmpty());
}

TEST_F(FilterTest, AResultInOnePartIsNoOperation) {
  const std::string parts = R"py(
def forward_fn(x, w, b):
    parts = [torch.relu(F.linear(part, w) + b) for part in x.split(%s)]
    return torch.cat(parts)
)py";
  const auto at = parts.find("%s");
  const TaskMeasures one = Measures(std::string(parts).replace(at, 2, "4") + kModel);
  EXPECT_EQ(one.operations, 3);
  EXPECT_THAT(Redundant(one), IsEmpty());
  const TaskMeasures two = Measures(std::string(parts).replace(at, 2, "2") + kModel);
  EXPECT_EQ(two.operations, 4);
}

TEST_F(FilterTest, MeasuresWeightsAndInputsSeparately) {
  const TaskMeasures weights_only =
      Measures(std::string("def forward_fn(x, w, b):\n    return (w + b[:, None]) * 2\n") + kModel);
  EXPECT_EQ(*weights_only.outputs.at(0).inputs_std, 0);
  EXPECT_GT(*weights_only.outputs.at(0).weights_std, 0.5);
  EXPECT_GT(*weights_only.outputs.at(0).seeds_std, 0.5);
  EXPECT_EQ(Argument(weights_only, "x").matters, false);
  const TaskMeasures inputs_only =
      Measures(std::string("def forward_fn(x, w, b):\n    return x * 2\n") + kModel);
  EXPECT_GT(*inputs_only.outputs.at(0).inputs_std, 0.5);
  EXPECT_EQ(*inputs_only.outputs.at(0).weights_std, 0);
  EXPECT_EQ(Argument(inputs_only, "w").matters, false);
}

TEST_F(FilterTest, NamesRedundantOperationsWithTheirLine) {
  const TaskMeasures m = Measures(std::string(R"py(
def forward_fn(x, w, b):
    y = F.linear(x, w, b)
    y = torch.relu(torch.exp(y))
    dead = torch.sin(y)
    y = y + 0.0 * dead
    return y.add_(1.0).relu_()
)py") + kModel);
  // The head of the file has three lines. exp and the additions of nonzero values matter.
  EXPECT_THAT(Redundant(m), ElementsAre("aten.relu 7 input", "aten.sin 8 input",
                                        "aten.add.Tensor 9 input", "aten.relu_ 10 input"));
}

TEST_F(FilterTest, ReportsEpsilonsAndStabilizersAsGuards) {
  const TaskMeasures m = Measures(std::string(R"py(
def forward_fn(x, w, b):
    y = F.linear(x, w, b)
    y = y / torch.sqrt(y.square().mean(dim=1, keepdim=True) + 1e-8)
    y = torch.exp(y - y.max(dim=1, keepdim=True).values)
    return y / y.sum(dim=1, keepdim=True).clamp_min(1e-30)
)py") + kModel);
  EXPECT_THAT(Redundant(m), ElementsAre("aten.max.dim 8 zeros", "aten.sub.Tensor 8 input",
                                        "aten.clamp_min 9 input"))
      << "the exponential of normalized values cannot overflow";
  const TaskMeasures plain = Measures(std::string(R"py(
def forward_fn(x, w, b):
    y = F.linear(x, w, b)
    z = torch.exp(y - y.max(dim=1, keepdim=True).values)
    z = z / z.sum(dim=1, keepdim=True)
    return z + x.sum() / (x.norm() + 1e-8)
)py") + kModel);
  EXPECT_THAT(Redundant(plain), IsEmpty());
  EXPECT_FALSE(plain.redundant.empty()) << "guards are still reported";
}

TEST_F(FilterTest, DetectsConstantsAndCopies) {
  const TaskMeasures constant =
      Measures(std::string("def forward_fn(x, w, b):\n"
                           "    y = F.linear(x, w, b).max(dim=1, keepdim=True).values\n"
                           "    return y - y.mean(dim=1, keepdim=True)\n") +
               kModel);
  EXPECT_TRUE(constant.outputs.at(0).constant);
  EXPECT_FALSE(constant.operations.has_value());
  const TaskMeasures copy = Measures(
      std::string("def forward_fn(x, w, b):\n    return x * 1.0, x + w.mean()\n") + kModel);
  EXPECT_EQ(copy.outputs.at(0).equals, "x");
  EXPECT_EQ(copy.outputs.at(1).equals, "");
}

TEST_F(FilterTest, DetectsUnusedHalves) {
  const TaskMeasures m = Measures(
      std::string("def forward_fn(x, w, b):\n    return F.linear(x[:, :4], w[:, :4], b)\n") +
      kModel);
  ASSERT_EQ(Argument(m, "x").idle.size(), 1u);
  EXPECT_EQ(Argument(m, "x").idle[0].axis, 1);
  EXPECT_EQ(Argument(m, "x").idle[0].from, 4);
  EXPECT_EQ(Argument(m, "x").idle[0].to, 8);
}

TEST_F(FilterTest, CountsLoopAsOneOperation) {
  const TaskMeasures m = Measures(std::string(R"py(
def forward_fn(x, w, b):
    y = F.linear(x, w, b)
    for _ in range(50):
        y = torch.tanh(y)
    return y
)py") + kModel);
  EXPECT_EQ(m.operations, 2);
  EXPECT_THAT(Redundant(m), IsEmpty());
}

TEST_F(FilterTest, ReportsFailingReferenceAsSettingFailure) {
  const auto raises = Outcome(
      std::string("def forward_fn(x, w, b):\n    raise ValueError('no such thing')\n") + kModel);
  ASSERT_TRUE(std::holds_alternative<SettingFailure>(raises));
  EXPECT_THAT(std::get<SettingFailure>(raises).message, HasSubstr("func_forward.py:5: ValueError"));
  const auto random =
      Outcome(std::string("def forward_fn(x, w, b):\n    return F.dropout(x)\n") + kModel);
  ASSERT_TRUE(std::holds_alternative<SettingFailure>(random));
  EXPECT_THAT(std::get<SettingFailure>(random).message, HasSubstr("random numbers"));
  const auto broken = Outcome("def forward_fn(:\n");
  ASSERT_TRUE(std::holds_alternative<SettingFailure>(broken));
  EXPECT_THAT(std::get<SettingFailure>(broken).message, HasSubstr("SyntaxError"));
  const auto dies =
      Outcome(std::string("import os\ndef forward_fn(x, w, b):\n    os.abort()\n") + kModel);
  ASSERT_TRUE(std::holds_alternative<SettingFailure>(dies));
  EXPECT_THAT(std::get<SettingFailure>(dies).message, HasSubstr("SIGABRT"));
  // The next task still works.
  Measures(std::string("def forward_fn(x, w, b):\n    return F.linear(x, w, b)\n") + kModel);
}

TEST_F(FilterTest, ReportsTooLargeTasksAsTooMuch) {
  const auto outcome =
      Outcome(std::string("def forward_fn(x, w, b):\n    return torch.zeros(1 << 40) + x.sum()\n") +
              kModel);
  ASSERT_TRUE(std::holds_alternative<TooMuch>(outcome));
  EXPECT_THAT(std::get<TooMuch>(outcome).message, HasSubstr("too large"));
}

TEST_F(FilterTest, MeasuresBackwardAndKernelBenchProblems) {
  const Task linear = *task::LoadTask("mnist_linear", fs::path(CUPEL_SOURCE_DIR) / "tasks");
  const TaskMeasures m = Take(OutcomeOf(linear, Direction::kBackward));
  EXPECT_EQ(m.outputs.size(), 3u);
  EXPECT_EQ(Argument(m, "incoming gradient").matters, true);
  EXPECT_GT(*m.outputs[0].inputs_std, 0);
  EXPECT_GT(*m.outputs[0].weights_std, 0);
  EXPECT_EQ(*m.outputs[1].weights_std, 0) << "the weights' gradient does not depend on the weights";
  EXPECT_THAT(Redundant(m), IsEmpty());

  const fs::path file = folder_.path() / "problem.py";
  std::ofstream(file) << R"py(
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size, size), nn.Sigmoid(), nn.ReLU(), nn.BatchNorm1d(size))
    def forward(self, x):
        return self.net(x)
def get_inputs():
    return [torch.randn(16, 8)]
def get_init_inputs():
    return [8]
)py";
  const TaskMeasures p = Take(OutcomeOf(*task::LoadTask(file.string(), "")));
  ASSERT_THAT(Redundant(p), ElementsAre("aten.relu 9 input"));
  EXPECT_EQ(p.redundant[0].module, "net.2 (ReLU)");
  EXPECT_EQ(Argument(p, "net.0.weight").matters, true);
  EXPECT_EQ(Argument(p, "net.3.running_mean").matters, false) << "train mode uses the batch's mean";
  EXPECT_TRUE(Argument(p, "net.3.running_mean").written);
  EXPECT_FALSE(Argument(p, "net.0.weight").written);
}

// --- invalid replies -----------------------------------------------------------------------------

TEST(FilterReply, RejectsInvalidReplies) {
  const char kOutput[] =
      R"({"name": "o", "dtype": "float32", "shape": [2], "finite": 1, "lowest": 0, "highest": 1,
          "scale": 1, "seeds_std": 1, "inputs_std": null, "weights_std": null, "axes": [],
          "constant": false, "equals": null})";
  const std::string good = std::string(R"({"outputs": [)") + kOutput +
                           R"(], "arguments": [], "has_weights": false, "weights_vary": false,
          "operations": {"total": null, "tried": 0, "redundant": []}, "unfinished": "",
          "warnings": [], "torch": "2", "seconds": 1})";
  const auto read = [](const std::string& text) { return ReadMeasures(*ParseJson(text, "")); };
  ASSERT_TRUE(read(good));
  for (const auto& [what, with] : std::vector<std::pair<std::string, std::string>>{
           {kOutput, ""},
           {kOutput, "7"},
           {"\"seeds_std\": 1", "\"seeds_std\": -1"},
           {"\"seeds_std\": 1", "\"seeds_std\": \"much\""},
           {"\"shape\": [2]", "\"shape\": 2"},
           {"\"redundant\": []", "\"redundant\": [\"all\"]"},
           {"\"warnings\": []", "\"warnings\": [{}]"},
           {"\"total\": null", "\"total\": []"}}) {
    std::string bad = good;
    bad.replace(bad.find(what), what.size(), with);
    EXPECT_FALSE(read(bad)) << bad;
  }
}

}  // namespace
}  // namespace cupel::oracle
