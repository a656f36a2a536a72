// Records small Python programs with this machine's PyTorch. Reported as skipped if there is none.
// SPDX-License-Identifier: Apache-2.0
#include "trace/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "device/device.h"
#include "oracle/operators.h"
#include "oracle/python.h"
#include "os/temp_dir.h"

namespace cupel::trace {
namespace {

namespace fs = std::filesystem;
using record::Outcome;
using record::Recording;
using record::Refusal;
using testing::HasSubstr;

/// The task's module: a linear layer and a counter. Its arguments are x, then its state.
constexpr char kReference[] = R"py(
import torch
class Model(torch.nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = torch.nn.Linear(inside, outside)
        self.register_buffer("count", torch.zeros(1))
    def forward(self, x):
        return self.linear(x)
)py";
constexpr int64_t kRows = 4, kInside = 8, kOutside = 6;

/// One pool and one process for operators serve all tests: PyTorch takes seconds to start.
struct Shared {
  os::TempDir cache = *os::TempDir::Create();
  std::shared_ptr<PythonPool> pool;
  std::shared_ptr<plan::OperatorRunner> operators;

  Shared() {
    PoolOptions options;
    options.zygote = fs::path(CUPEL_SOURCE_DIR) / "src/trace/py/zygote.py";
    options.tracer = options.zygote.parent_path();
    options.cache = cache.path();
    pool = std::make_shared<PythonPool>(options);
    oracle::OperatorOptions torch;
    torch.script = fs::path(CUPEL_SOURCE_DIR) / "src/oracle/py/operators.py";
    torch.cache = cache.path();
    operators = oracle::MakeOperatorRunner(torch);
  }
};

class TracerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { shared_ = std::make_unique<Shared>(); }
  static void TearDownTestSuite() { shared_.reset(); }

  void SetUp() override {
    const auto python = oracle::FindPython("", shared_->cache.path() / "pythons.json");
    if (!python) GTEST_SKIP() << python.error().ToString();
    for (const size_t count : {kRows * kInside, kOutside * kInside, kOutside, int64_t{1}}) {
      values_.emplace_back(count, 0.0f);
    }
    args_ = {Floats(0, {kRows, kInside}), Floats(1, {kOutside, kInside}), Floats(2, {kOutside}),
             Floats(3, {1})};
  }

  task::Value Floats(size_t index, std::vector<int64_t> shape) {
    task::Tensor tensor;
    tensor.strides = task::ContiguousStrides(shape);
    tensor.shape = std::move(shape);
    tensor.storage = std::as_bytes(std::span(values_[index]));
    return {tensor};
  }

  std::unique_ptr<Tracer> Start(const std::string& source) {
    const fs::path file = folder_.path() / "answer.py";
    std::ofstream(file) << source;
    Options options;
    options.pool = shared_->pool;
    options.record.operators = shared_->operators;
    options.reference = kReference;
    options.device = *device::Find("h100");
    options.build.shim = fs::path(CUPEL_SOURCE_DIR) / "shim";
    options.signature = [](const task::Setting&) -> Result<Json> {
      return ParseJson(
          R"({"init": {"args": [{"value": 8}, {"value": 6}], "keywords": {}}, "arguments": [
              {"name": "x", "kind": "input", "type": "tensor"},
              {"name": "w", "kind": "state", "type": "tensor", "path": "linear.weight"},
              {"name": "b", "kind": "state", "type": "tensor", "path": "linear.bias"},
              {"name": "c", "kind": "state", "type": "tensor", "path": "count"}]})",
          "signature");
    };
    options.wanted = wanted_;
    auto tracer = Tracer::Start(file, std::move(options));
    EXPECT_TRUE(tracer) << tracer.error().ToString();
    return std::move(*tracer);
  }

  Outcome Record(const std::string& source) {
    auto outcome = Start(source)->Record("forward", args_, {});
    EXPECT_TRUE(outcome) << outcome.error().ToString();
    return outcome ? std::move(*outcome) : Outcome(Refusal{"error", "", "", false});
  }

  /// The kinds of the plan's nodes: operators by name, others by "copy", "fill", "upload".
  std::string Steps(const std::string& source) {
    const Outcome outcome = Record(source);
    const auto* recording = std::get_if<Recording>(&outcome);
    if (recording == nullptr) {
      const auto& refusal = std::get<Refusal>(outcome);
      return refusal.code + ": " + refusal.message;
    }
    last_ = *recording;
    std::string text;
    for (const plan::Node& node : recording->plan.nodes) {
      if (!text.empty()) text += ' ';
      if (const auto* work = std::get_if<plan::Operator>(&node.work)) {
        text += work->name.substr(6);
      } else {
        text += std::holds_alternative<plan::Fill>(node.work)     ? "fill"
                : std::holds_alternative<plan::Upload>(node.work) ? "upload"
                : std::holds_alternative<plan::Launch>(node.work) ? "launch"
                                                                  : "copy";
      }
    }
    return text;
  }

  static std::unique_ptr<Shared> shared_;
  os::TempDir folder_ = *os::TempDir::Create();
  std::vector<std::vector<float>> values_;
  std::vector<task::Value> args_;
  Recording last_;
  std::optional<WantedConfiguration> wanted_;
};
std::unique_ptr<Shared> TracerTest::shared_;

/// A program whose module is the task's, with another forward. `init` extends the construction.
std::string Program(const std::string& forward, const std::string& init = "pass",
                    const std::string& before = "") {
  return "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n" + before +
         "\nclass ModelNew(nn.Module):\n"
         "  def __init__(self, inside, outside):\n"
         "    super().__init__()\n"
         "    self.linear = nn.Linear(inside, outside)\n"
         "    self.register_buffer('count', torch.zeros(1))\n"
         "    " +
         init + "\n  def forward(self, x):\n" + forward + "\n";
}

TEST_F(TracerTest, RecordsOperators) {
  EXPECT_EQ(Steps(Program("    return torch.relu(self.linear(x))")), "addmm relu");
  EXPECT_EQ(last_.plan.prepared, 0);
  EXPECT_TRUE(last_.notes.empty());
  ASSERT_EQ(last_.plan.outputs.size(), 1u);
  EXPECT_EQ(last_.plan.outputs[0].shape, (std::vector<int64_t>{kRows, kOutside}));
}

TEST_F(TracerTest, PythonIsOrdinary) {
  // Guards, exceptions, loops, caches by shape, decorators and attributes of classes.
  EXPECT_EQ(Steps(Program(R"py(
    assert x.is_cuda and x.device.type == "cuda" and not x.requires_grad and x.is_contiguous()
    if x.dtype != torch.float32 or x.dim() != 2 or not torch.cuda.is_available():
        raise ValueError("no")
    try:
        missing(x)
    except NameError:
        pass
    key = (tuple(x.shape), x.dtype)
    if key not in self.table:
        self.table[key] = x.shape[0] * 2
    for _ in range(2):
        x = self.scale(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = self.run(x)
    torch.cuda.synchronize()
    return y)py",
                          "self.table = {}", R"py(
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
@torch.compile
def compiled(x):
    return x.view(-1).view(x.shape)
)py") + R"py(
  @torch.no_grad()
  def scale(self, x):
    return Scale.apply(x)
  def run(self, x):
    return compiled(F.linear(x, self.linear.weight))
  __call__ = forward
)py"),
            "mul.Tensor mul.Tensor mm");
}

TEST_F(TracerTest, FindsTheTasksParameters) {
  // Another name, the same construction.
  EXPECT_EQ(Steps(R"py(
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.renamed = torch.nn.Linear(inside, outside)
    def forward(self, x):
        return torch.nn.functional.linear(x, self.renamed.weight, self.renamed.bias)
)py"),
            "addmm");
  EXPECT_TRUE(last_.notes.empty());
  // Another form of it: half, transposed, packed.
  EXPECT_EQ(Steps(Program("    return (x.half() @ self.packed).float()",
                          "self.register_buffer('packed', "
                          "self.linear.weight.detach().half().t().contiguous())")),
            "copy copy copy mm copy");
  EXPECT_EQ(last_.plan.prepared, 2);
  // A parameter that is made in another way is still the task's, with a note.
  EXPECT_EQ(Steps(Program("    return self.linear(x)", "nn.init.zeros_(self.linear.weight)")),
            "addmm");
  ASSERT_EQ(last_.notes.size(), 1u);
  EXPECT_THAT(last_.notes[0], HasSubstr("makes linear.weight in another way"));
}

TEST_F(TracerTest, RefusesOtherRandomTensors) {
  EXPECT_THAT(Steps(Program("    return self.linear(x) + self.mine",
                            "self.mine = nn.Parameter(torch.randn(6))")),
              HasSubstr("unsupported_operator: ModelNew's mine is made of random numbers"));
  EXPECT_THAT(Steps(Program("    return F.dropout(self.linear(x), 0.5)")),
              HasSubstr("depends on random numbers"));
  EXPECT_EQ(Steps(Program("    return F.dropout(self.linear(x), 0.5, training=False)")), "addmm");
  // Random numbers that no result depends on: a layer that gets the task's weight after its own.
  const std::string layer =
      "    other = nn.Linear(8, 6, bias=False)\n"
      "    other.weight.data = self.linear.weight.data.clone()\n";
  EXPECT_EQ(Steps(Program(layer + "    return other(x)")), "copy mm");
  EXPECT_THAT(last_.notes, testing::Contains(HasSubstr("no result depends on")));
  EXPECT_THAT(Steps(Program(layer + "    return other(x) * torch.rand(1, device='cuda')")),
              HasSubstr("depends on random numbers"));
}

TEST_F(TracerTest, RefusesReadingValues) {
  for (const char* code :
       {"    return x * x.sum().item()", "    return x if x.sum() > 0 else -x",
        "    return x * float(x[0, 0])", "    return x * x.tolist()[0][0]",
        "    return x * int(x.max())", "    return torch.tensor(x.cpu().numpy())"}) {
    EXPECT_THAT(Steps(Program(code)), HasSubstr("reads_device_memory: the program reads")) << code;
  }
  // Whatever the program does with the exception.
  EXPECT_THAT(Steps(Program(R"py(
    try:
        x.sum().item()
    except BaseException:
        pass
    return x * 2)py")),
              HasSubstr("reads_device_memory"));
}

TEST_F(TracerTest, NamesTheLine) {
  const Outcome outcome = Record(
      "import torch\nclass ModelNew(torch.nn.Module):\n"
      "  def __init__(self, a, b):\n    super().__init__()\n"
      "  def forward(self, x):\n    return x * x.sum().item()\n");
  EXPECT_EQ(std::get<Refusal>(outcome).where, "answer.py:6");
  const Outcome raised = Record("import torch\nraise ValueError('no')\n");
  EXPECT_EQ(std::get<Refusal>(raised).where, "answer.py:2");
  EXPECT_EQ(std::get<Refusal>(raised).message, "ValueError: no");
}

TEST_F(TracerTest, KeepsDevicesApart) {
  EXPECT_THAT(Steps(Program("    return x + torch.ones(8)")),
              HasSubstr("Expected all tensors to be on the same device"));
  EXPECT_THAT(Steps(Program("    return x.cpu()")), HasSubstr("a tensor on the CPU"));
  EXPECT_EQ(Steps(Program("    return x + torch.ones(8, device=x.device) + torch.ones(8).cuda()")),
            "fill add.Tensor fill copy add.Tensor");
  EXPECT_EQ(Steps(Program("    return x * torch.tensor(2.0)")), "upload mul.Tensor");
}

TEST_F(TracerTest, CastsAsAutocastDoes) {
  const auto autocast = [&](const std::string& body, const std::string& how = "'cuda'") {
    return Steps(
        Program("    with torch.autocast(" + how + "):\n      y = " + body + "\n    return y"));
  };
  // The input, the weight and the bias become half; a sum is computed in float32.
  EXPECT_EQ(autocast("self.linear(x)"), "copy copy copy addmm");
  EXPECT_EQ(last_.plan.outputs[0].dtype, DType::kF16);
  EXPECT_EQ(autocast("F.scaled_dot_product_attention(x, x, x)", "'cuda', torch.bfloat16"),
            "copy copy copy scaled_dot_product_attention");
  EXPECT_EQ(last_.plan.outputs[0].dtype, DType::kBF16);
  EXPECT_EQ(autocast("torch.relu(x.half()).sum()"), "copy relu copy sum");
  EXPECT_EQ(last_.plan.outputs[0].dtype, DType::kF32);
  EXPECT_EQ(autocast("x.half() + 1"), "copy add.Tensor");
  EXPECT_EQ(autocast("torch.cat([x, x.half()])"), "copy copy cat");
  EXPECT_EQ(autocast("self.linear(x)", "'cuda', enabled=False"), "addmm");
  EXPECT_EQ(autocast("self.linear(x)", "'cpu'"), "addmm");  // the tensors are on the GPU
  EXPECT_THAT(autocast("torch.ones(8, 8) @ torch.ones(8, 8)", "'cpu'"),
              HasSubstr("tensors that are on the CPU"));
}

TEST_F(TracerTest, WhatIsMeasuredLastIsTheFastest) {
  for (const char* clock : {"time.time()", "time.perf_counter()", "time.monotonic_ns()",
                            "timeit.default_timer()", "time.clock_gettime(1)"}) {
    const std::string now = clock;
    EXPECT_EQ(
        Steps(Program("    if self.use is None:\n"
                      "        a = " +
                          now + "\n        x * 2\n        b = " + now + "\n" +
                          "        torch.relu(x)\n"
                          "        time.sleep(100)\n        c = " +
                          now + "\n" +
                          "        self.use = c - b - 100 * (1 if b < 1e12 else 1e9) < b - a\n"
                          "    return torch.relu(x) if self.use else x * 2",
                      "self.use = None", "import time, timeit\n")),
        "relu")
        << clock;
    EXPECT_THAT(last_.notes, testing::Contains(HasSubstr("chooses by measured time"))) << clock;
  }
}

TEST_F(TracerTest, NotesWhatPyTorchIsToldToDoOtherwise) {
  EXPECT_EQ(Steps(Program("    return self.linear(x)", "pass",
                          "torch.backends.cuda.matmul.allow_tf32 = True\n")),
            "addmm");
  EXPECT_THAT(last_.notes, testing::Contains(HasSubstr("use TF32")));
  // A program whose class has the name of the task's.
  std::string program = Program("    return self.linear(x)");
  program.replace(program.find("class ModelNew"), 14, "class Model");
  EXPECT_EQ(Steps(program), "addmm");
  EXPECT_THAT(last_.notes, testing::Contains(HasSubstr("its class Model is judged")));
  EXPECT_EQ(Steps(Program("    return x * self.depth",
                          "self.depth = len(pathlib.Path(__file__).resolve().parents)",
                          "import pathlib\n"
                          "assert pathlib.Path(__file__).is_absolute()\n")),
            "mul.Tensor");
}

TEST_F(TracerTest, RecordsGraphs) {
  EXPECT_EQ(Steps(Program(R"py(
    if self.graph is None:
        self.x, self.graph = torch.empty_like(x), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = torch.relu(self.x)
    self.x.copy_(x)
    self.graph.replay()
    return self.y.clone())py",
                          "self.graph = None")),
            "copy relu copy");
}

TEST_F(TracerTest, CopiesStateThatCallsChange) {
  EXPECT_EQ(Steps(Program("    self.count += 1\n    return x * self.count")),
            "copy add_.Tensor mul.Tensor");
}

// ---- programs that try to do no work ----

TEST_F(TracerTest, DetectsCaches) {
  // By address: the plan changes when the same tensor comes again.
  EXPECT_THAT(Steps(Program(R"py(
    if x.data_ptr() not in self.known:
        self.known[x.data_ptr()] = self.linear(x)
    return self.known[x.data_ptr()])py",
                            "self.known = {}")),
              HasSubstr("impure"));
  // For ever: the steady plan reads memory that no node writes.
  EXPECT_EQ(Steps(Program(R"py(
    if self.y is None:
        self.y = self.linear(x)
    return self.y)py",
                          "self.y = None")),
            "");
  ASSERT_TRUE(last_.first);
  EXPECT_EQ(last_.plan.buffers[static_cast<size_t>(last_.plan.outputs[0].address.buffer)].kind,
            plan::BufferKind::kWorkspace);
  // By the number of calls.
  EXPECT_THAT(Steps(Program(R"py(
    self.calls += 1
    return self.linear(x) if self.calls % 5 else x[:, :6])py",
                            "self.calls = 0")),
              HasSubstr("impure"));
  // By the first input, which a plan would name like any later one.
  EXPECT_THAT(Steps(Program(R"py(
    if self.x is None:
        self.x = x
    return self.linear(self.x))py",
                            "self.x = None")),
              HasSubstr("impure"));
}

TEST_F(TracerTest, RefusesStreamsThatDoNotWait) {
  EXPECT_THAT(Steps(Program(R"py(
    with torch.cuda.stream(torch.cuda.Stream()):
        return self.linear(x))py")),
              HasSubstr("unordered_work"));
}

TEST_F(TracerTest, RefusesTensorsThatItDidNotSee) {
  constexpr const char* kHides[] = {
      // The modes of the recorder taken from the stack.
      R"py(
    from torch.utils._python_dispatch import _disable_current_modes
    with _disable_current_modes():
        return torch.zeros(4, 6))py",
      // A subclass that computes when it is read.
      R"py(
    class Lazy(torch.Tensor):
        pass
    return torch.Tensor._make_subclass(Lazy, self.linear(x)))py",
      "    return [[self.linear(x)]]",
      "    return {'y': self.linear(x)}",
  };
  for (const char* code : kHides) {
    const Outcome outcome = Record(Program(code));
    ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << code;
    EXPECT_FALSE(std::get<Refusal>(outcome).unsupported) << code;
  }
}

TEST_F(TracerTest, IgnoresPatches) {
  // What a program replaces in PyTorch changes its own calls alone.
  EXPECT_EQ(Steps(Program("    return torch.relu(self.linear(x))", "pass", R"py(
import gc, sys, time, threading, atexit
torch.relu = lambda x: x
torch.allclose = lambda *a, **k: True
torch.cuda.Event.elapsed_time = lambda *a: 0.0
time.time = time.perf_counter = lambda: 0.0
atexit.register(lambda: None)
sys.setprofile(lambda *a: None)
for o in gc.get_objects():
    if type(o).__name__ == "Recording":
        pass
)py")),
            "addmm");
}

TEST_F(TracerTest, EndsProgramsThatDamageTheirProcess) {
  constexpr const char* kPrograms[] = {
      "import os\nos._exit(0)\n",
      "import sys\nsys.exit(0)\n",
      "import ctypes\nctypes.string_at(0)\n",
      "import os\nos.kill(os.getppid(), 9)\n",
      "import os\nos.write(3, b'\\0' * 100)\nos.write(4, b'\\0' * 100)\n",
      "import threading\nthreading.Thread(target=print).start()\n",
      "import subprocess\nsubprocess.run(['true'])\n",
      "import socket\nsocket.socket()\n",
      "a = [0]\nwhile True:\n  a = a + a\n",
      "import torch\ntorch.ones(1 << 40) + 1\nraise MemoryError\n",
      "def f():\n  f()\nf()\n",
      "class ModelNew:\n  pass\nModelNew.__init__ = None\n",
      "ModelNew = 3\n",
  };
  for (const char* program : kPrograms) {
    const Outcome outcome = Record(program);
    EXPECT_TRUE(std::holds_alternative<Refusal>(outcome)) << program;
  }
  // The pool still works.
  EXPECT_EQ(Steps(Program("    return self.linear(x)")), "addmm");
}

TEST_F(TracerTest, ChecksAgainInAnotherProcess) {
  const auto tracer = Start(Program("    return self.linear(x)"));
  ASSERT_TRUE(tracer->Record("forward", args_, {}));
  const auto checked = tracer->Recheck();
  ASSERT_TRUE(checked) << checked.error().ToString();
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*checked));

  // Depends on the addresses of its process.
  const auto other =
      Start(Program("    return self.linear(x) * k", "pass", "k = id(nn) % 1000003\n"));
  ASSERT_TRUE(other->Record("forward", args_, {}));
  const auto again = other->Recheck();
  ASSERT_TRUE(again);
  (void)again;  // forked processes share their addresses
}

/// A program whose forward adds x and the weight with a kernel of Triton.
std::string TritonProgram(const std::string& launch, const std::string& decorator = "") {
  return Program("    y = torch.empty_like(x)\n    b = self.linear.weight\n    n = x.numel()\n" +
                     launch + "\n    return y",
                 "pass", "import triton\nimport triton.language as tl\n" + decorator + R"py(
@triton.jit
def add(x, b, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)
)py");
}

TEST_F(TracerTest, RecordsTritonKernels) {
  const std::string steps =
      Steps(TritonProgram("    add[(1,)](x, b, y, n, BLOCK=64, num_warps=2)"));
  if (steps.find("No module named 'triton'") != std::string::npos) GTEST_SKIP() << steps;
  ASSERT_EQ(steps, "launch");
  ASSERT_EQ(last_.images.size(), 1u);
  EXPECT_FALSE(last_.images[0]->resources.empty());
  const auto& launch = std::get<plan::Launch>(last_.plan.nodes[0].work);
  EXPECT_EQ(launch.kernel, "add");
  EXPECT_EQ(launch.block, (plan::Dim3{64, 1, 1}));
  ASSERT_EQ(launch.relocations.size(), 3u);
  EXPECT_EQ(launch.relocations[2].target, last_.plan.outputs[0].address);

  // Two specialisations are two images.
  EXPECT_EQ(
      Steps(TritonProgram(
          "    add[(1,)](x, b, y, n, BLOCK=64)\n"
          "    add[lambda meta: (triton.cdiv(n, meta['BLOCK']),)](x, b, y, n - 1, BLOCK=16)")),
      "launch launch");
  EXPECT_EQ(last_.images.size(), 2u);
  EXPECT_EQ(std::get<plan::Launch>(last_.plan.nodes[1].work).grid, (plan::Dim3{2, 1, 1}));

  // A program may use it through a library, without naming it.
  std::string hidden = TritonProgram("    add[(1,)](x, b, y, n, BLOCK=64)");
  const auto replace = [&hidden](const std::string& old, const std::string& text) {
    for (size_t at = 0; (at = hidden.find(old, at)) != std::string::npos; at += text.size()) {
      hidden.replace(at, old.size(), text);
    }
  };
  replace("import triton.language as tl", "tl = importlib.import_module('tri' 'ton.language')");
  replace("import triton", "import importlib\ntt = importlib.import_module('tri' 'ton')");
  replace("@triton.", "@tt.");
  ASSERT_EQ(hidden.find("triton"), std::string::npos);
  EXPECT_EQ(Steps(hidden), "launch");

  // A configuration that is not chosen by time.
  EXPECT_EQ(Steps(TritonProgram(
                "    add[(1,)](x, b, y, n)",
                "@triton.autotune([triton.Config({'BLOCK': b}) for b in (64, 128)], key=['n'])")),
            "launch");
  ASSERT_EQ(last_.notes.size(), 1u);
  EXPECT_THAT(last_.notes[0],
              HasSubstr("configurations of add, the first that fits was recorded: BLOCK: 64"));
}

TEST_F(TracerTest, RecordsTheWantedConfiguration) {
  const std::string program = TritonProgram(
      "    add[(1,)](x, b, y, n)\n    add[(1,)](x, b, y, n)\n    add[(1,)](x, b, y, 3)",
      "@triton.autotune([triton.Config({'BLOCK': b}) for b in (64, 256, 128)], key=['n'])");
  const std::string steps = Steps(program);
  if (steps.find("No module named 'triton'") != std::string::npos) GTEST_SKIP() << steps;
  ASSERT_EQ(last_.searches.size(), 2u);  // one for each key
  EXPECT_EQ(last_.searches[0].kernel, "add");
  ASSERT_EQ(last_.searches[0].configurations.size(), 3u);
  EXPECT_THAT(last_.searches[0].configurations[1], HasSubstr("BLOCK: 256"));
  EXPECT_EQ(last_.searches[0].chosen, 0);
  wanted_ = WantedConfiguration{1, 2};
  EXPECT_EQ(Steps(program), steps);
  ASSERT_EQ(last_.searches.size(), 2u);
  EXPECT_EQ(last_.searches[0].chosen, 0);
  EXPECT_EQ(last_.searches[1].chosen, 2);
}

TEST_F(TracerTest, ExplainsWhatTritonRefuses) {
  const std::string steps = Steps(TritonProgram("    add[(1,)](x, b, y, n, BLOCK=60)"));
  if (steps.find("No module named 'triton'") != std::string::npos) GTEST_SKIP() << steps;
  EXPECT_EQ(steps, "host_exception: CompilationError: arange's range must be a power of 2");
  EXPECT_THAT(Steps(TritonProgram("    add[(1, 70000)](x, b, y, n, BLOCK=64)")),
              HasSubstr("illegal_launch: kernel add"));
  EXPECT_THAT(Steps(TritonProgram("    add[(1,)](x.cpu(), b, y, n, BLOCK=64)")),
              HasSubstr("cpu tensor?"));
  EXPECT_THAT(Steps(TritonProgram("    triton.testing.do_bench(lambda: 0)")),
              HasSubstr("unsupported_api: triton.testing.do_bench"));
  EXPECT_THAT(Steps(TritonProgram("    add[(1,)](x, b, y, n, BLOCK=64, launch_pdl=True)")),
              HasSubstr("unordered_work"));
}

/// A program that launches its kernels with `module`: `make` gives `scale`, and `forward` calls it.
std::string WithKernels(const std::string& make, const std::string& forward) {
  return Program("    y = torch.empty_like(x)\n    n = x.numel()\n" + forward + "\n    return y",
                 "pass", R"py(
import ctypes
code = r'''
extern "C" __global__ void scale(const float* x, float* y, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * by;
}
struct Pair { const float* x; float* y; };
extern "C" __global__ void pair(Pair p) { p.y[threadIdx.x] = p.x[threadIdx.x]; }
template <class T, int N> __global__ void times(const T* x, T* y) { y[threadIdx.x] = x[threadIdx.x] * N; }
'''
)py" + make);
}

const std::string kCupy = R"py(
import cupy as cp
scale = cp.RawKernel(code, "scale", ("-std=c++17",))
module = cp.RawModule(code=code, name_expressions=["times<float, 3>"])
times = module.get_function("times<float, 3>")
)py";
std::string Cupy(const std::string& forward) { return WithKernels(kCupy, forward); }

TEST_F(TracerTest, RecordsKernelsOfCupy) {
  EXPECT_EQ(Steps(Cupy("    scale((1,), (32,), (x.data_ptr(), y.data_ptr(), n, cp.float32(2)))")),
            "launch");
  const auto launch = [&] { return std::get<plan::Launch>(last_.plan.nodes.back().work); };
  EXPECT_EQ(launch().kernel, "scale");
  EXPECT_EQ(launch().block.x, 32u);
  ASSERT_EQ(launch().relocations.size(), 2u);
  EXPECT_EQ(launch().relocations[0].target.buffer, 0);
  EXPECT_EQ(launch().parameters.substr(16, 4), std::string("\x20\0\0\0", 4));
  EXPECT_EQ(Steps(Cupy("    times((1,), (32,), (cp.asarray(x), cp.from_dlpack(y)))")), "launch");
  EXPECT_THAT(launch().kernel, HasSubstr("timesIfLi3E"));
  // A view points into its tensor's memory.
  EXPECT_EQ(Steps(Cupy("    times((1,), (16,), (x[2:].data_ptr(), y.data_ptr() + 64))")), "launch");
  EXPECT_EQ(launch().relocations[0].target.offset, 64);
  EXPECT_EQ(launch().relocations[1].target.offset, 64);
}

TEST_F(TracerTest, RecordsKernelsOfPyTorchAndCudaCore) {
  EXPECT_EQ(Steps(WithKernels("scale = torch.cuda._compile_kernel(code, 'scale')\n",
                              "    scale((1, 1, 1), (32, 1, 1), (x, y, n, 2))")),
            "launch");
  EXPECT_EQ(Steps(WithKernels("times = torch.cuda._compile_kernel(code, 'times<float,3>')\n",
                              "    times((1, 1, 1), (32, 1, 1), (x, y))")),
            "launch");
  EXPECT_EQ(Steps(WithKernels(R"py(
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
kernels = Program(code, "c++", ProgramOptions(std="c++17")).compile("cubin", ("times<float, 3>",))
stream = Device().create_stream(torch.cuda.current_stream().cuda_stream)
)py",
                              R"py(
    launch(stream, LaunchConfig(grid=1, block=32), kernels.get_kernel("times<float, 3>"), x.data_ptr(), y.data_ptr())
    launch(stream, LaunchConfig(grid=1, block=32), kernels.get_kernel("scale"), x.data_ptr(), y.data_ptr(), n,
           ctypes.c_float(2)))py")),
            "launch launch");
}

TEST_F(TracerTest, RefusesWrongArgumentsOfKernels) {
  const auto scale = [&](const std::string& arguments) {
    return Steps(Cupy("    scale((1,), (32,), (" + arguments + "))"));
  };
  EXPECT_THAT(scale("x.data_ptr(), y.data_ptr(), n"), HasSubstr("wrong_arguments: scale has 4"));
  EXPECT_THAT(scale("x.data_ptr(), y.data_ptr(), cp.int16(n), cp.float32(2)"),
              HasSubstr("wrong_arguments: parameter 2 of scale has 4 bytes"));
  EXPECT_THAT(scale("x.data_ptr(), y.data_ptr(), x.data_ptr(), cp.float32(2)"),
              HasSubstr("the program passes an address"));
  EXPECT_THAT(scale("(x + 1).data_ptr(), y.data_ptr(), n, cp.float32(2)"),
              HasSubstr("freed_memory: parameter 0 of scale"));
  EXPECT_THAT(scale("x.cpu().data_ptr(), y.data_ptr(), n, cp.float32(2)"),
              HasSubstr("freed_memory"));
  EXPECT_THAT(Steps(Cupy("    z = x.cpu()\n"
                         "    scale((1,), (32,), (z.data_ptr(), y.data_ptr(), n, cp.float32(2)))")),
              HasSubstr("wrong_arguments: parameter 0 of scale is the address of a tensor that is "
                        "on the CPU"));
  EXPECT_THAT(Steps(Cupy("    class Pair(ctypes.Structure):\n"
                         "      _fields_ = [('x', ctypes.c_void_p), ('y', ctypes.c_void_p)]\n"
                         "    import numpy\n"
                         "    p = numpy.array([x.data_ptr(), y.data_ptr()]).view('V16')[0]\n"
                         "    module.get_function('pair')((1,), (32,), (p,))")),
              HasSubstr("a structure that contains addresses"));
  EXPECT_THAT(
      Steps(Cupy("    scale((1,), (2048,), (x.data_ptr(), y.data_ptr(), n, cp.float32(2)))")),
      HasSubstr("illegal_launch"));
  EXPECT_THAT(Steps(Cupy("    module.get_function('none')((1,), (1,), ())")),
              HasSubstr("host_exception: RuntimeError: CUDA_ERROR_NOT_FOUND"));
  EXPECT_THAT(Steps(Cupy("    cp.cumsum(x)")), HasSubstr("unsupported_api: cupy.cumsum"));
}

TEST_F(TracerTest, ReportsKernelsThatDoNotCompile) {
  const std::string broken =
      "code = 'extern \"C\" __global__ void scale() { nonsense; }'\n" + kCupy;
  const Outcome outcome = Record(WithKernels(broken, "    scale((1,), (1,), ())"));
  EXPECT_EQ(std::get<Refusal>(outcome).code, "compile_error");
  EXPECT_EQ(std::get<Refusal>(outcome).where, "cupy_kernels.cu:1");
  EXPECT_EQ(Steps(WithKernels(broken,
                              "    try:\n      scale((1,), (1,), ())\n"
                              "    except Exception:\n      y.copy_(x)")),
            "copy");
  EXPECT_THAT(last_.notes, testing::Contains(HasSubstr("cupy_kernels do not compile")));
}

TEST_F(TracerTest, OrdersKernelsByTheStreamsThatProgramsName) {
  const auto after = [&](const std::string& line) {
    return Steps(Cupy(R"py(
    current, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):
      z = x * 2
    )py" + line + R"py(
    scale((1,), (32,), (z.data_ptr(), y.data_ptr(), n, cp.float32(2))))py"));
  };
  EXPECT_THAT(after("pass"), HasSubstr("unordered_work"));
  EXPECT_EQ(after("current.wait_stream(side)"), "mul.Tensor launch");
  // The caller uses the result in its own stream.
  const std::string use = "cp.cuda.ExternalStream(side.cuda_stream).use()";
  EXPECT_THAT(after(use), HasSubstr("unordered_work"));
}

TEST_F(TracerTest, RefusesTheBackwardDirection) {
  const auto outcome = Start(Program("    return x"))->Record("backward", args_, {});
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(std::get<Refusal>(*outcome).unsupported);
}

}  // namespace
}  // namespace cupel::trace
