// Tests the client of baseline.py: with a child that sends given replies, with the real script and
// a simulated GPU, and with the real script alone. The last two need PyTorch.
// SPDX-License-Identifier: Apache-2.0
#include "oracle/baseline.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cmath>
#include <fstream>
#include <future>

#include "oracle/python.h"
#include "os/fd.h"
#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;
using task::Direction;
using task::Task;
using ::testing::HasSubstr;
using Mode = Baselines::Mode;

fs::path Repository() { return CUPEL_SOURCE_DIR; }

ClockKernels Kernels() {
  ClockKernels kernels;
  kernels.flush_ptx = kernels.probe_ptx = ".version 8.0";
  kernels.flush_entry = kernels.probe_entry = "kernel";
  kernels.flush_bytes = 1024;
  return kernels;
}

const Task& Linear() {
  static const Task task = *task::LoadTask("mnist_linear", Repository() / "tasks");
  return task;
}
const task::Setting& SettingOf(const Task& task) { return task.SettingsOf(Direction::kForward)[0]; }

/// "" if the baseline is prepared.
std::string FailureOf(const Result<std::variant<BaselineInfo, SettingFailure>>& outcome) {
  if (!outcome) return "error: " + outcome.error().ToString();
  const auto* failure = std::get_if<SettingFailure>(&*outcome);
  return failure == nullptr ? "" : failure->message;
}

// --- a child that sends given replies -----------------------------------------------------------

class FakeChild : public ::testing::Test {
 protected:
  FakeChild() : folder_(*os::TempDir::Create()) {
    // Answers FindPython's probe (-c); otherwise runs the script.
    const fs::path python = folder_.path() / "python";
    std::ofstream(python)
        << "#!/bin/sh\nif [ \"$1\" = -c ]; then echo '{\"program\": \"" << python.string()
        << "\", \"version\": \"9.0\", \"files\": []}'; else exec python3 \"$@\"; fi\n";
    fs::permissions(python, fs::perms::owner_all);
    options_.python = python;
    options_.script = folder_.path() / "child.py";
    options_.kernels = Kernels();
    options_.step_deadline = std::chrono::seconds(20);
  }

  /// `prepare`, `take`, `energy`: the child's replies, as Python expressions that may use
  /// `request`.
  Result<std::unique_ptr<Baselines>> Start(const std::string& prepare, const std::string& take,
                                           const std::string& energy = "{}") {
    std::ofstream(options_.script) << R"(
import json, os, sys
def say(message):
    print(json.dumps(message), flush=True)
say({"hello": {}})
good = {"torch": "9.9", "gpu": "G", "tf32": False, "how": "graph", "why": "", "fewer": "",
        "sets": 2, "kernels": 1, "outputs": [], "seconds": 1.5}
answers = {"open": lambda request: {"torch": "9.9", "gpu": "G"}, "load": lambda request: {},
           "drop": lambda request: {},
           "energy": lambda request: )"
                                   << energy << R"(,
           "prepare": lambda request: )"
                                   << prepare << R"(,
           "take": lambda request: )"
                                   << take << R"(}
for line in sys.stdin:
    request = json.loads(line)
    say(dict(answers[request["op"]](request), id=request["id"]))
)";
    return Baselines::Start(options_);
  }
  Result<std::variant<BaselineInfo, SettingFailure>> Prepare(const std::string& answer) {
    auto baselines = Start(answer, "{}");
    if (!baselines) return tl::unexpected<Error>(baselines.error());
    const uint64_t seeds[] = {1, 2};
    return (*baselines)
        ->Prepare(Linear(), Direction::kForward, SettingOf(Linear()), {BaselineKind::kEager},
                  seeds);
  }
  Result<std::vector<double>> Take(const std::string& answer) {
    auto baselines = Start("good", answer);
    if (!baselines) return tl::unexpected<Error>(baselines.error());
    const auto info = (*baselines)
                          ->Prepare(Linear(), Direction::kForward, SettingOf(Linear()),
                                    {BaselineKind::kProbe}, {});
    // The probe has one input set, so a reply with two must be rejected.
    if (info) return Fail(ErrorCode::kInternal, "accepted two sets of a probe");
    const uint64_t seeds[] = {1, 2};
    const auto eager = (*baselines)
                           ->Prepare(Linear(), Direction::kForward, SettingOf(Linear()),
                                     {BaselineKind::kEager}, seeds);
    if (FailureOf(eager) != "") return Fail(ErrorCode::kInternal, FailureOf(eager));
    return (*baselines)->Take(std::get<BaselineInfo>(*eager).name, Mode::kCold, 1, 3);
  }

  os::TempDir folder_;
  BaselineOptions options_;
};

TEST_F(FakeChild, ReadsBaselineInfo) {
  const auto outcome = Prepare(
      R"(dict(good, why="a\nb", outputs=[{"name": "y", "none": False, "difference": 0.5,
      "largest": 2, "rms_share": 0.25}, {"name": "z", "none": True}, {"name": "n", "none": False, "difference": None,
      "largest": 0, "rms_share": None}], kernels=None))");
  ASSERT_EQ(FailureOf(outcome), "");
  const auto& info = std::get<BaselineInfo>(*outcome);
  EXPECT_EQ(info.torch_version, "9.9");
  EXPECT_EQ(info.why, "a b");
  EXPECT_EQ(info.sets, 2);
  EXPECT_EQ(info.kernels, 0);
  EXPECT_EQ(info.seconds, 1.5);
  ASSERT_EQ(info.outputs.size(), 3u);
  EXPECT_EQ(info.outputs[0].difference, 0.5);
  EXPECT_TRUE(info.outputs[1].is_none);
  EXPECT_EQ(info.outputs[0].rms_share, 0.25);
  EXPECT_TRUE(std::isinf(info.outputs[2].difference));
}

TEST_F(FakeChild, RejectsInvalidBaselineInfo) {
  for (const char* lie : {"dict(good, sets=0)", "dict(good, sets=3)", "dict(good, how='magic')",
                          "dict(good, seconds=-1)", "dict(good, seconds='x')",
                          "dict(good, kernels=-1)", "dict(good, tf32=1)", "dict(good, outputs=[1])",
                          "dict(good, outputs=[{'name': 'y'}] * 300)",
                          "dict(good, outputs=[{'name': 'y', 'none': False, 'difference': -1, "
                          "'largest': 1, 'rms_share': 0}])",
                          "{}", "{'failure': 5}"}) {
    EXPECT_THAT(FailureOf(Prepare(lie)), HasSubstr("error: ")) << lie;
  }
  EXPECT_EQ(FailureOf(Prepare("{'failure': 'the task\\nsays no'}")), "the task says no");
}

TEST_F(FakeChild, RejectsWrongSampleCountsAndValues) {
  const auto good = Take("{'us': [1, 2.5, 1e6]}");
  ASSERT_TRUE(good) << good.error().ToString();
  EXPECT_EQ(*good, (std::vector<double>{1, 2.5, 1e6}));
  for (const char* lie :
       {"{'us': [1, 2]}", "{'us': [1, 2, 3, 4]}", "{'us': [1, 2, 0]}", "{'us': [1, 2, -3]}",
        "{'us': [1, 2, 1e300]}", "{'us': [1, 2, 'x']}", "{'us': [1, 2, None]}", "{'us': 5}", "{}",
        "{'us': [1, 2, float('nan')]}"}) {
    EXPECT_FALSE(Take(lie)) << lie;
  }
  const auto failed = Take("{'failure': 'out of memory'}");
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("out of memory"));
}

TEST_F(FakeChild, RejectsImpossibleEnergy) {
  const auto measured = [&](const std::string& answer) {
    auto baselines = *Start("good", "{}", answer);
    const uint64_t seeds[] = {1, 2};
    const auto eager = baselines->Prepare(Linear(), Direction::kForward, SettingOf(Linear()),
                                          {BaselineKind::kEager}, seeds);
    return baselines->MeasureEnergy(std::get<BaselineInfo>(*eager).name, 0.5);
  };
  const auto good =
      measured("{'joules': 0.25, 'watts': 300, 'calls': int(4 * request['seconds'])}");
  ASSERT_TRUE(good) << good.error().ToString();
  EXPECT_EQ(good->joules, 0.25);
  EXPECT_EQ(good->watts, 300);
  EXPECT_EQ(good->calls, 2);
  for (const char* lie :
       {"{'joules': -1, 'watts': 300, 'calls': 2}", "{'joules': 1, 'watts': -1, 'calls': 2}",
        "{'joules': float('inf'), 'watts': 1, 'calls': 2}", "{'joules': 1, 'watts': 1, 'calls': 0}",
        "{'joules': 1, 'watts': 1}", "{'joules': 'x', 'watts': 1, 'calls': 2}"}) {
    EXPECT_FALSE(measured(lie)) << lie;
  }
  const auto unsupported = measured("{'failure': 'unsupported: no counter'}");
  ASSERT_FALSE(unsupported);
  EXPECT_EQ(unsupported.error().code, ErrorCode::kUnsupported);
  const auto failed = measured("{'failure': 'out of memory'}");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kEnvironment);
}

TEST_F(FakeChild, ReplacesDeadChild) {
  // The first child dies at the first request. The second finds the mark and continues.
  const std::string mark = (folder_.path() / "mark").string();
  auto baselines = Start("good if os.path.exists('" + mark + "') else (open('" + mark +
                             "', 'w'), sys.stderr.write('last words\\n'), os._exit(3))",
                         "{'us': [1] * request['count']} if request['mode'] != 'host' else "
                         "os.kill(os.getpid(), 9)");
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const uint64_t seeds[] = {1, 2};
  const auto prepare = [&] {
    return (*baselines)
        ->Prepare(Linear(), Direction::kForward, SettingOf(Linear()), {BaselineKind::kEager},
                  seeds);
  };
  const auto died = prepare();
  ASSERT_FALSE(died);
  EXPECT_THAT(died.error().message, HasSubstr("exit status 3: last words"));
  const auto lives = prepare();
  ASSERT_EQ(FailureOf(lives), "");
  const std::string name = std::get<BaselineInfo>(*lives).name;
  EXPECT_TRUE((*baselines)->Take(name, Mode::kWarm, 0, 2));
  EXPECT_FALSE((*baselines)->Take(name, Mode::kWarm, 2, 2));  // there are two sets
  EXPECT_FALSE((*baselines)->Take(name, Mode::kWarm, 0, 0));
  const auto killed = (*baselines)->Take(name, Mode::kHost, 0, 2);
  ASSERT_FALSE(killed);
  EXPECT_THAT(killed.error().message, HasSubstr("SIGKILL"));
  const auto unknown = (*baselines)->Take(name, Mode::kWarm, 0, 2);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE((*baselines)->Drop(name));
}

TEST_F(FakeChild, ReplacesChildWithBrokenContext) {
  const std::string mark = (folder_.path() / "mark").string();
  auto baselines = Start("(good if os.path.exists('" + mark + "') else (open('" + mark +
                             "', 'w'), {'failure': 'illegal address', 'broken': True})[1])",
                         "{}");
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const uint64_t seeds[] = {1, 2};
  for (const char* expected : {"illegal address", ""}) {
    const auto outcome = (*baselines)
                             ->Prepare(Linear(), Direction::kForward, SettingOf(Linear()),
                                       {BaselineKind::kEager}, seeds);
    EXPECT_EQ(FailureOf(outcome), expected);
  }
}

// --- the real script ----------------------------------------------------------------------------

class BaselineScript : public ::testing::Test {
 protected:
  BaselineScript() : folder_(*os::TempDir::Create()) {}
  void SetUp() override {
    const auto python = FindPython("", "");
    if (!python) GTEST_SKIP() << python.error().ToString();
    version_ = python->torch_version;
  }
  Result<std::unique_ptr<Baselines>> Start(const std::string& script, const fs::path& lock = "") {
    BaselineOptions options;
    options.script = Repository() / "src/oracle" / script;
    options.kernels = Kernels();
    options.lock = lock;
    return Baselines::Start(options);
  }
  Task MakeTask(const std::string& function, const std::string& name) const {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path);
    std::ofstream(path / "func_forward.py") << "import torch\nimport torch.nn as nn\n"
                                            << function << R"(
class Model(nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x.t()[1:])
def get_inputs():
    return [torch.rand(6, 5) + 1]
)";
    std::ofstream(path / "config_forward.json") << "{}";
    const auto task = task::LoadTask(path.string(), "");
    EXPECT_TRUE(task) << task.error().message;
    return *task;
  }
  static Result<std::variant<BaselineInfo, SettingFailure>> Prepare(
      Baselines& baselines, const Task& task, const Baseline& baseline = {},
      Direction direction = Direction::kForward) {
    const uint64_t seeds[] = {1, UINT64_MAX, 3};
    return baselines.Prepare(task, direction, task.SettingsOf(direction)[0], baseline, seeds);
  }

  os::TempDir folder_;
  std::string version_;
};

constexpr char kWithoutGpu[] = "testdata/baseline_without_gpu.py";

TEST_F(BaselineScript, ReportsWhyItCannotTime) {
  if (version_.find("+cu") != std::string::npos) GTEST_SKIP() << "this PyTorch has CUDA";
  const auto baselines = Start("py/baseline.py");
  ASSERT_FALSE(baselines);
  EXPECT_EQ(baselines.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(baselines.error().message, HasSubstr("unsupported: "));
  EXPECT_THAT(baselines.error().message, HasSubstr("CUPEL_PYTHON"));
}

TEST_F(BaselineScript, TimesTheCallWithoutTheFlush) {
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  EXPECT_EQ((*baselines)->gpu(), "Stand-in");
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const auto outcome = Prepare(**baselines, Linear(), {BaselineKind::kEager}, direction);
    ASSERT_EQ(FailureOf(outcome), "");
    const auto& info = std::get<BaselineInfo>(*outcome);
    EXPECT_EQ(info.how, "graph");
    EXPECT_FALSE(info.tf32);
    EXPECT_EQ(info.sets, 3);
    EXPECT_EQ(info.kernels, 1);
    ASSERT_EQ(info.outputs.size(), direction == Direction::kForward ? 1u : 3u);
    for (const BaselineOutput& output : info.outputs) {
      EXPECT_EQ(output.difference, 0) << output.name;
      EXPECT_GT(output.largest, 0) << output.name;
    }
    for (const Mode mode : {Mode::kCold, Mode::kWarm}) {
      const auto samples = (*baselines)->Take(info.name, mode, 2, 5);
      ASSERT_TRUE(samples) << samples.error().ToString();
      for (const double us : *samples) EXPECT_NEAR(us, 10, 0.01);
    }
    EXPECT_TRUE((*baselines)->Take(info.name, Mode::kHost, 0, 5));
    EXPECT_TRUE((*baselines)->Drop(info.name));
    EXPECT_FALSE((*baselines)->Take(info.name, Mode::kCold, 0, 1));
  }
  const auto probe = Prepare(**baselines, Linear(), {BaselineKind::kProbe});
  ASSERT_EQ(FailureOf(probe), "");
  const auto samples = (*baselines)->Take(std::get<BaselineInfo>(*probe).name, Mode::kCold, 0, 2);
  ASSERT_TRUE(samples);
  EXPECT_NEAR(samples->front(), 1000, 0.01);
}

TEST_F(BaselineScript, TimesFunctionsOfOtherFiles) {
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const Task task = MakeTask("def forward_fn(x):\n    return x * 3\n", "tripled");
  const fs::path file = folder_.path() / "library.py";
  std::ofstream(file) << R"(
import torch
requires = ['torch']
def libraries():
    return 'adder 7'
def added(x):
    return x + x + x
def halved(x):
    return x / 2
def cut(x):
    y = x * 3
    y[3:] = y[3:].mean()
    y[3:] *= 0.5
    return y
def narrow(x):
    return x[:1]
)";
  const auto of = [&](const char* function) {
    return Prepare(**baselines, task, {BaselineKind::kNamed, {function, file, function}});
  };
  const auto added = of("added");
  ASSERT_EQ(FailureOf(added), "");
  const auto& info = std::get<BaselineInfo>(*added);
  EXPECT_EQ(info.baseline.Name(), "added");
  EXPECT_THAT(info.libraries, AllOf(HasSubstr("torch "), HasSubstr("adder 7")));
  EXPECT_LT(info.outputs.at(0).difference, 1e-6);
  EXPECT_TRUE((*baselines)->Take(info.name, Mode::kCold, 2, 5));
  const auto halved = of("halved");
  ASSERT_EQ(FailureOf(halved), "");
  EXPECT_GT(std::get<BaselineInfo>(*halved).outputs.at(0).difference, 1) << "compared with eager";
  EXPECT_LT(info.outputs.at(0).rms_share, 1e-6);
  const auto cut = of("cut");
  ASSERT_EQ(FailureOf(cut), "");
  EXPECT_GT(std::get<BaselineInfo>(*cut).outputs.at(0).rms_share, 0.1);
  EXPECT_THAT(FailureOf(of("narrow")), HasSubstr("shape"));
  EXPECT_THAT(FailureOf(of("missing")), HasSubstr("does not define"));
}

// What a call leaves in its arguments is a result, too.
TEST_F(BaselineScript, ComparesWhatNamedBaselinesChange) {
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const Task task =
      MakeTask("def forward_fn(x):\n    x.mul_(3)\n    return x.sum(1)\n", "in_place");
  const fs::path file = folder_.path() / "in_place.py";
  std::ofstream(file) << "def both(x):\n    x *= 3\n    return x.sum(1)\n"
                         "def returned(x):\n    return (x * 3).sum(1)\n";
  for (const auto& [name, is_right] : {std::pair("both", true), std::pair("returned", false)}) {
    const auto outcome = Prepare(**baselines, task, {BaselineKind::kNamed, {name, file, name}});
    ASSERT_EQ(FailureOf(outcome), "");
    const auto& outputs = std::get<BaselineInfo>(*outcome).outputs;
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(outputs[1].name, "tensor 0 after the call");
    EXPECT_LT(outputs[0].difference, 1e-4);
    EXPECT_EQ(outputs[1].difference < 1e-4, is_right) << name;
  }
}

TEST_F(BaselineScript, CountsIntegersThatDiffer) {
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const Task task = MakeTask("def forward_fn(x):\n    return x.argsort(1)\n", "order");
  const fs::path file = folder_.path() / "orders.py";
  std::ofstream(file) << "def same(x):\n    return x.argsort(1)\n"
                         "def first(x):\n    y = x.argsort(1)\n    y[0, 0] += 1\n    return y\n";
  for (const auto& [name, most] : {std::pair("same", 0.0), std::pair("first", 0.1)}) {
    const auto outcome = Prepare(**baselines, task, {BaselineKind::kNamed, {name, file, name}});
    ASSERT_EQ(FailureOf(outcome), "");
    const auto& differing = std::get<BaselineInfo>(*outcome).outputs.at(0).differing;
    ASSERT_TRUE(differing.has_value());
    EXPECT_LE(*differing, most);
    EXPECT_EQ(*differing > 0, most > 0);
  }
}

TEST_F(BaselineScript, SaysWhichLibraryIsMissing) {
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const Task task = MakeTask("def forward_fn(x):\n    return x * 3\n", "tripled");
  const fs::path declared = folder_.path() / "declared.py", imported = folder_.path() / "used.py";
  std::ofstream(declared) << "requires = ['no-such-library']\ndef declared(x):\n    return x\n";
  std::ofstream(imported) << "import no_such_module\ndef used(x):\n    return x\n";
  EXPECT_THAT(FailureOf(Prepare(**baselines, task,
                                {BaselineKind::kNamed, {"declared", declared, "declared"}})),
              AllOf(HasSubstr("unsupported: "), HasSubstr("pip install no-such-library")));
  EXPECT_THAT(
      FailureOf(Prepare(**baselines, task, {BaselineKind::kNamed, {"used", imported, "used"}})),
      AllOf(HasSubstr("unsupported: "), HasSubstr("no_such_module")));
  EXPECT_EQ(FailureOf(Prepare(**baselines, task)), "") << "the child still works";
}

TEST_F(BaselineScript, SharesInputsBetweenBaselinesAndRestoresThem) {
  const fs::path log = folder_.path() / "drawn";
  const Task task = MakeTask("def forward_fn(x):\n    return x.mul_(3)\n", "spoils");
  std::ofstream(task.path / "func_forward.py", std::ios::app)
      << "drawn = get_inputs\ndef get_inputs():\n    print('x', file=open('" << log.string()
      << "', 'a'))\n    return drawn()\n";
  const auto drawn = [&] { return fs::exists(log) ? fs::file_size(log) / 2 : 0; };
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  for (int again = 0; again < 2; ++again) {
    const auto outcome = Prepare(**baselines, task);
    ASSERT_EQ(FailureOf(outcome), "");
    EXPECT_EQ(drawn(), 3u);
    const BaselineOutput& output = std::get<BaselineInfo>(*outcome).outputs.at(0);
    EXPECT_EQ(output.difference, 0);
    EXPECT_LE(output.largest, 6);  // three times at most 2
    EXPECT_GT(output.largest, 3);
    if (again == 1) {
      EXPECT_TRUE((*baselines)->Drop(std::get<BaselineInfo>(*outcome).name));
    }
  }
  ASSERT_EQ(FailureOf(Prepare(**baselines, task)), "");
  EXPECT_EQ(drawn(), 6u);  // the inputs are drawn again
}

// On the simulated clock, a call takes 0.01 ms at 100 W.
TEST_F(BaselineScript, MeasuresTheEnergyOfACall) {
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const auto outcome = Prepare(**baselines, Linear());
  ASSERT_EQ(FailureOf(outcome), "");
  const std::string name = std::get<BaselineInfo>(*outcome).name;
  for (int again = 0; again < 2; ++again) {
    const auto energy = (*baselines)->MeasureEnergy(name, 0.2);
    ASSERT_TRUE(energy) << energy.error().ToString();
    EXPECT_NEAR(energy->joules, 1e-3, 2e-5);
    EXPECT_GT(energy->calls, 10);
    EXPECT_GT(energy->watts, 0);
  }
  EXPECT_FALSE((*baselines)->MeasureEnergy(name, 0));
  EXPECT_FALSE((*baselines)->MeasureEnergy("another", 0.2));
  const Task counts = MakeTask("def forward_fn(x):\n    x += 1\n    return x * 3\n", "counts");
  const Task waits =
      MakeTask("def forward_fn(x):\n    return x * float(x.sum().item())\n", "waits");
  for (const Task* task : {&counts, &waits}) {
    const auto other = Prepare(**baselines, *task);
    ASSERT_EQ(FailureOf(other), "");
    const auto refused = (*baselines)->MeasureEnergy(std::get<BaselineInfo>(*other).name, 0.2);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(refused.error().message,
                HasSubstr(task == &counts ? "change their arguments" : "not captured"));
  }
}

TEST_F(BaselineScript, SharesGraphMemoryBetweenBaselines) {
  ::setenv("STANDIN_GRAPH_BYTES", "600000000", 1);  // of 1 GiB
  auto baselines = Start(kWithoutGpu);
  ::unsetenv("STANDIN_GRAPH_BYTES");
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const Task linear = Linear();
  // The second task's capture fails. It must not affect the others or keep memory.
  const Task lacks = MakeTask(
      "def forward_fn(x):\n    if torch.cuda.is_current_stream_capturing():\n"
      "        raise RuntimeError('CUDA out of memory')\n    return x * 3\n",
      "lacks");
  for (int again = 0; again < 2; ++again) {
    std::vector<std::string> names;
    for (const Task* task : {&linear, &lacks, &linear, &linear}) {
      const auto outcome = Prepare(**baselines, *task);
      ASSERT_EQ(FailureOf(outcome), "");
      const auto& info = std::get<BaselineInfo>(*outcome);
      EXPECT_EQ(info.how, task == &lacks ? "stream" : "graph");
      EXPECT_EQ(info.sets, 3) << info.fewer;
      names.push_back(info.name);
    }
    for (const std::string& name : names) {
      EXPECT_TRUE((*baselines)->Take(name, Mode::kCold, 2, 2));
      EXPECT_TRUE((*baselines)->Drop(name));
    }
  }
}

TEST_F(BaselineScript, BrokenCaptureDoesNotAffectOtherBaselines) {
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const Task breaks =
      MakeTask("def forward_fn(x):\n    torch.cuda.synchronize()\n    return x * 3\n", "breaks");
  const fs::path log = folder_.path() / "loaded";
  const Task works = MakeTask(
      "open('" + log.string() + "', 'a').write('x')\ndef forward_fn(x):\n    return x * 3\n",
      "works");
  std::vector<std::string> names;
  for (const Task* task : {&works, &breaks, &works}) {
    const auto outcome = Prepare(**baselines, *task);
    ASSERT_EQ(FailureOf(outcome), "");
    const auto& info = std::get<BaselineInfo>(*outcome);
    EXPECT_EQ(info.how, task == &breaks ? "stream" : "graph") << info.why;
    names.push_back(info.name);
  }
  for (const std::string& name : names) {
    EXPECT_TRUE((*baselines)->Take(name, Mode::kCold, 2, 2));
    EXPECT_TRUE((*baselines)->Drop(name));
  }
  // A new child starts: the memory of a broken capture is freed only when its process ends.
  EXPECT_EQ(fs::file_size(log), 1u);
  ASSERT_EQ(FailureOf(Prepare(**baselines, works)), "");
  EXPECT_EQ(fs::file_size(log), 2u);
}

TEST_F(BaselineScript, WaitsForTheLockToPrepare) {
  const fs::path path = folder_.path() / "gpu.lock";
  auto baselines = Start(kWithoutGpu, path);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const os::Fd lock(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);  // the child released it after opening
  auto prepared = std::async(std::launch::async, [&] { return Prepare(**baselines, Linear()); });
  EXPECT_EQ(prepared.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
  ::flock(lock.get(), LOCK_UN);
  const auto outcome = prepared.get();
  ASSERT_EQ(FailureOf(outcome), "");
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);  // the caller of Take() holds it
  EXPECT_TRUE((*baselines)->Take(std::get<BaselineInfo>(*outcome).name, Mode::kCold, 0, 2));
}

TEST_F(BaselineScript, WaitsForMemoryThatOthersUse) {
  ::setenv("STANDIN_REFUSALS", "2", 1);
  ::setenv("STANDIN_BYTES_OF_OTHERS", "17179869184", 1);
  auto crowded = Start(kWithoutGpu);
  ::setenv("STANDIN_BYTES_OF_OTHERS", "1000000", 1);
  auto alone = Start(kWithoutGpu);
  ::unsetenv("STANDIN_REFUSALS");
  ::unsetenv("STANDIN_BYTES_OF_OTHERS");
  ASSERT_TRUE(crowded) << crowded.error().ToString();
  ASSERT_TRUE(alone) << alone.error().ToString();
  EXPECT_EQ(FailureOf(Prepare(**crowded, Linear())), "");
  // No other process will free memory.
  EXPECT_THAT(FailureOf(Prepare(**alone, Linear())), HasSubstr("out of memory"));
}

TEST_F(BaselineScript, DrawsSameInputsAsTheOracle) {
  Options options;
  options.script = Repository() / "src/oracle/py/oracle.py";
  TorchOracle oracle(options);
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const task::Setting& setting = Linear().SettingsOf(direction)[0];
    const auto cases = oracle.Cases(Linear(), direction, setting, 1, 9);
    ASSERT_TRUE(cases) << cases.error().ToString();
    const auto& drawn = std::get<task::Case>(cases->front());
    const auto outcome =
        (*baselines)
            ->Prepare(Linear(), direction, setting, {BaselineKind::kEager}, {&drawn.seed, 1});
    ASSERT_EQ(FailureOf(outcome), "");
    const auto& info = std::get<BaselineInfo>(*outcome);
    ASSERT_EQ(info.outputs.size(), drawn.outputs.size());
    for (size_t i = 0; i < info.outputs.size(); ++i) {
      EXPECT_EQ(info.outputs[i].name, drawn.outputs[i].name);
      double largest = 0;
      for (int64_t j = 0; j < drawn.outputs[i].truth.numel(); ++j) {
        largest = std::max(largest, std::abs(task::ElementAsDouble(drawn.outputs[i].truth, j)));
      }
      EXPECT_NEAR(info.outputs[i].largest, largest, largest * 1e-5);
    }
  }
}

TEST_F(BaselineScript, RestoresArgumentsThatTheCallChanges) {
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const Task task = MakeTask(R"(
def forward_fn(x):
    assert float(x.max()) <= 2, "the argument has changed"
    return x.mul_(2)
)",
                             "changes");
  const auto outcome = Prepare(**baselines, task);
  ASSERT_EQ(FailureOf(outcome), "");
  const auto& info = std::get<BaselineInfo>(*outcome);
  ASSERT_EQ(info.outputs.size(), 2u);
  for (const BaselineOutput& output : info.outputs) {
    EXPECT_EQ(output.difference, 0);
    EXPECT_LE(output.largest, 4);
  }
  for (const Mode mode : {Mode::kCold, Mode::kWarm, Mode::kHost}) {
    const auto samples = (*baselines)->Take(info.name, mode, 0, 3);
    EXPECT_TRUE(samples) << samples.error().ToString();
  }
}

TEST_F(BaselineScript, TimesSynchronizingCallsInTheStream) {
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const auto outcome = Prepare(
      **baselines, MakeTask("def forward_fn(x):\n    return x * x.max().item()\n", "waits"));
  ASSERT_EQ(FailureOf(outcome), "");
  const auto& info = std::get<BaselineInfo>(*outcome);
  EXPECT_EQ(info.how, "stream");
  EXPECT_THAT(info.why, HasSubstr("synchronizing"));
  const auto samples = (*baselines)->Take(info.name, Mode::kCold, 0, 2);
  ASSERT_TRUE(samples) << samples.error().ToString();
  EXPECT_NEAR(samples->front(), 10, 0.01);
}

TEST_F(BaselineScript, ReportsTaskFailuresAsSettingFailures) {
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const auto wrong =
      Prepare(**baselines, MakeTask("def forward_fn(x):\n    return x @ torch.ones(9)\n", "wrong"));
  EXPECT_THAT(FailureOf(wrong), HasSubstr("func_forward.py:4"));
  EXPECT_EQ(FailureOf(Prepare(**baselines, Linear())), "");  // the child still works
}

TEST_F(BaselineScript, RunsKernelBenchProblems) {
  const fs::path path = folder_.path() / "3_Problem.py";
  std::ofstream(path) << R"(
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.BatchNorm1d(n)
        self.mask = torch.tril(torch.ones(n, n))
    def forward(self, x):
        return self.norm(x) @ self.mask, x.sum()
def get_inputs():
    return [torch.randn(6, 3)]
def get_init_inputs():
    return [3]
)";
  const Task task = *task::LoadTask(path.string(), "");
  auto baselines = Start(kWithoutGpu);
  ASSERT_TRUE(baselines) << baselines.error().ToString();
  const auto outcome = Prepare(**baselines, task);
  ASSERT_EQ(FailureOf(outcome), "");
  const auto& info = std::get<BaselineInfo>(*outcome);
  EXPECT_EQ(info.sets, 3);
  // Two results, and the running mean, the running variance and the number of batches.
  ASSERT_EQ(info.outputs.size(), 5u);
  EXPECT_EQ(info.outputs[1].name, "output 1");
  for (const BaselineOutput& output : info.outputs) EXPECT_EQ(output.difference, 0) << output.name;
  EXPECT_TRUE((*baselines)->Take(info.name, Mode::kCold, 1, 2));
}

}  // namespace
}  // namespace cupel::oracle
