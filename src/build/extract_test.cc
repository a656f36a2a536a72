// SPDX-License-Identifier: Apache-2.0
#include "build/extract.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::build {
namespace {

constexpr char kHead[] =
    "import torch\nimport torch.nn as nn\nfrom torch.utils.cpp_extension import load_inline\n";
constexpr char kModule[] =
    "cpp = 'torch::Tensor f(torch::Tensor x, torch::Tensor w, int n);'\n"
    "cuda = 'torch::Tensor f(torch::Tensor x, torch::Tensor w, int n) { return x; }'\n"
    "m = load_inline(name='m', cpp_sources=cpp, cuda_sources=cuda, functions=['f'],\n"
    "                extra_cuda_cflags=['-Xptxas', '-v', '-O3'])\n";

/// An answer with these bodies of __init__ and forward, after `before`.
std::string Answer(const std::string& init, const std::string& forward,
                   const std::string& before = kModule) {
  return fmt::format(
      "{}{}class ModelNew(nn.Module):\n  def __init__(self, size):\n    super().__init__()\n"
      "    {}\n  def forward(self, x):\n    {}\n",
      kHead, before, init, forward);
}

/// A task with one input, a parameter linear.weight, and a constructor argument 7 that depends on
/// the size "features".
Json Signature() {
  return *ParseJson(R"({"arguments": [
      {"name": "x", "kind": "input", "type": "tensor"},
      {"name": "linear_weight", "kind": "state", "type": "tensor", "path": "linear.weight"}],
      "init": {"args": [{"value": 7, "sizes": ["features"]}], "keywords": {}},
      "sizes": {"features": 7}})",
                    "test");
}

ExtractOutcome Extract(const std::string& text) {
  auto folder = os::TempDir::Create();
  EXPECT_TRUE(folder.has_value());
  const auto file = folder->path() / "answer.py";
  EXPECT_TRUE(os::WriteFileAtomically(file, text).has_value());
  const auto script = std::filesystem::path(CUPEL_SOURCE_DIR) / "src" / "build" / "extract.py";
  const auto outcome = ExtractAnswer(file, Signature(), {script, "/usr/bin/python3"});
  EXPECT_TRUE(outcome.has_value()) << outcome.error().ToString();
  return *outcome;
}

std::string SourceOf(const std::string& text) {
  const ExtractOutcome outcome = Extract(text);
  const auto* refusal = std::get_if<ExtractRefusal>(&outcome);
  EXPECT_EQ(refusal, nullptr) << refusal->message;
  return refusal == nullptr ? std::get<Extraction>(outcome).source : "";
}

std::string RefusalOf(const std::string& text) {
  const ExtractOutcome outcome = Extract(text);
  const auto* refusal = std::get_if<ExtractRefusal>(&outcome);
  EXPECT_NE(refusal, nullptr) << std::get<Extraction>(outcome).source;
  return refusal == nullptr ? "" : refusal->message;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Extract, UsesTheTasksArgumentsInOrder) {
  const std::string source =
      SourceOf(Answer("self.linear = nn.Linear(7, 7, bias=False)",
                      "return m.f(x.contiguous(), self.linear.weight, 2 + 1)"));
  EXPECT_TRUE(Has(source, "cupel_forward(torch::Tensor x, torch::Tensor linear_weight)"));
  EXPECT_TRUE(Has(source, "f(v0, linear_weight, 3)")) << source;
  EXPECT_TRUE(Has(source, "m.def(\"forward\", &cupel_forward)"));
  EXPECT_FALSE(Has(source, "Tensor w, int n);")) << "the declaration must be omitted";
}

TEST(Extract, MatchesParameterByPosition) {
  const ExtractOutcome outcome =
      Extract(Answer("self.w = nn.Parameter(torch.randn(7, 7))", "return m.f(x, self.w, 1)"));
  const auto& extraction = std::get<Extraction>(outcome);
  EXPECT_TRUE(Has(extraction.source, "f(x, linear_weight, 1)"));
  ASSERT_EQ(extraction.notes.size(), 1u);
  EXPECT_TRUE(Has(extraction.notes[0], "based on its position"));
  EXPECT_EQ(extraction.flags, (std::vector<std::string>{"-Xptxas", "-v", "-O3"}));
}

TEST(Extract, DeclaresSizesUsedAsConstants) {
  const std::string source = SourceOf(Answer(
      "self.w = nn.Parameter(torch.randn(7, 7)); self.n = size", "return m.f(x, self.w, self.n)"));
  EXPECT_TRUE(Has(source, "f(x, linear_weight, 7)"));
  EXPECT_TRUE(Has(source, "// cupel:supports features=7"));
}

TEST(Extract, VoidFunctionsFillAllocatedTensors) {
  const std::string before =
      "m = load_inline('m', 'void f(torch::Tensor x, torch::Tensor y);', "
      "'void f(torch::Tensor x, torch::Tensor y) {}', functions='f')\n";
  const std::string source = SourceOf(
      Answer("pass",
             "B, D = x.shape\n    y = torch.empty((B, D // 2), device=x.device, dtype=x.dtype)\n"
             "    m.f(x, y)\n    return y",
             before));
  EXPECT_TRUE(
      Has(source, "torch::empty({x.size(0), (x.size(1) / 2)}, x.options().dtype(x.scalar_type()))"))
      << source;
  EXPECT_TRUE(Has(source, "  f(x, v0);\n  return v0;")) << source;
}

TEST(Extract, EvaluatesFunctionsStringsAndSequentialCalls) {
  const std::string before = std::string("N = 4\n") +
                             "code = f'torch::Tensor g(torch::Tensor x) {{ return x; }} // {N}'\n"
                             "_m = None\ndef get():\n  global _m\n  if _m is None:\n"
                             "    _m = load_inline(name='a', cpp_sources=[''], "
                             "cuda_sources=[code + '\\n', '#define B 1'], functions=['g'])\n"
                             "  return _m\n";
  const std::string source =
      SourceOf(Answer("pass", "h = get().g(x)\n    return get().g(h)", before));
  EXPECT_TRUE(Has(source, "{ return x; } // 4"));
  EXPECT_TRUE(Has(source, "auto v0 = g(x);\n  auto v1 = g(v0);\n  return v1;")) << source;
}

TEST(Extract, RefusesUnsupportedCodeInOneLine) {
  const auto refused = [](const std::string& forward, const std::string& part) {
    const std::string why = RefusalOf(Answer("self.linear = nn.Linear(7, 7, bias=False)", forward));
    EXPECT_TRUE(Has(why, part)) << why;
    EXPECT_FALSE(Has(why, "\n"));
  };
  refused("return torch.relu(m.f(x, x, 1))", "torch.relu");
  refused("return m.f(self.linear(x), x, 1)", "framework mathematics");
  refused("return m.f(x, x, 1) + x", "framework mathematics");
  refused("return x", "calls no function");
  refused("return m.g(x)", "g is not among");
  refused("return m.f(x, self.linear.bias, 1) if x.sum() > 0 else x", "not known");
  refused("self.y = m.f(x, x, 1)\n    return self.y", "stores a value");
  EXPECT_TRUE(Has(RefusalOf(Answer("pass", "return m.f(x, x, 1)",
                                   "m = load_inline('m', '', open('k.cu').read())\n")),
                  "open"));
}

TEST(Extract, RefusesCodeThatReplacesForward) {
  const std::string init = "self.linear = nn.Linear(7, 7)";
  const std::string good = Answer(init, "return m.f(x, self.linear.weight, 1)");
  EXPECT_FALSE(SourceOf(good).empty());
  EXPECT_FALSE(SourceOf("import torch\ntorch.backends.cudnn.benchmark = True\n" + good).empty());
  const auto with_init = [&](const std::string& more) {
    return Answer(init + "\n    " + more, "return m.f(x, self.linear.weight, 1)");
  };
  const std::pair<std::string, const char*> answers[] = {
      {good + "ModelNew.forward = lambda self, x: x\n", "replaces a method"},
      {good + "if True:\n  ModelNew.size = 3\n", "changes a class after it is defined"},
      {good + "setattr(ModelNew, 'forward', print)\n", "setattr is not supported"},
      {good + "del ModelNew.forward\n", "replaces a method"},
      {good + "torch.nn.Module.__call__ = print\n", "replaces a method"},
      {good + "torch.relu = print\n", "changes an attribute of torch"},
      {good + "raise RuntimeError('no')\n", "when it is imported"},
      {good + "if True:\n  assert 1 > 2\n", "when it is imported"},
      {good + "if x:\n  def forward(): pass\n  class ModelNew: pass\n", "no class ModelNew"},
      {good + "  if True:\n    def forward(self, x): return x\n",
       "defines forward without a plain def"},
      {good + "  from torch import relu as forward\n", "defines forward without a plain def"},
      {good + "  async def forward(self, x): return x\n", "defines forward without a plain def"},
      {good + "change = setattr\n", "setattr is not supported"},
      {good + "import builtins\nbuiltins.exec('')\n", "exec is not supported"},
      {good + "globals()['ModelNew'] = nn.ReLU\n", "globals is not supported"},
      {good + "from torch.nn.modules.module import register_module_forward_hook as h\n",
       "hooks are"},
      {good + "m.f = print\n", "f is not among"},
      {good + "  forward = print\n", "defines forward without a plain def"},
      {good + "  def __call__(self, x):\n    return x\n", "defines __call__"},
      {good + "@torch.compile\nclass Other:\n  pass\n", "has a decorator"},
      {good + "class Other(metaclass=type):\n  pass\n", "has a metaclass"},
      {with_init("self.forward = print"), "replaces a method"},
      {with_init("self.__class__ = print"), "replaces a method"},
      {with_init("self.__dict__['forward'] = print"), "__dict__ is not supported"},
      {with_init("self._forward_hooks[0] = print"), "hooks are not supported"},
      {with_init("if 7 > size - 1:\n      raise ValueError(size)"), "always raises an error"},
      {with_init("m.f = print"), "f is not among"},
      {Answer(init, "m.f = print\n    return m.f(x, self.linear.weight, 1)"),
       "forward changes m.f"},
      {Answer(init,
              "return m.f(x, self.linear.weight, 1)\n  @torch.compile\n  def forward(self, x):\n"
              "    return m.f(x, self.linear.weight, 1)"),
       "has the decorator torch.compile"},
      {with_init("self.register_forward_hook(print)"), "hooks are not supported"},
      {with_init("self.linear.register_forward_pre_hook(print)"), "hooks are not supported"},
  };
  for (const auto& [text, why] : answers) {
    EXPECT_TRUE(Has(RefusalOf(text), why)) << why << ": " << RefusalOf(text);
  }
}

TEST(Extract, AcceptsHarmlessConstructs) {
  const std::string init = "self.linear = nn.Linear(7, 7)";
  const std::string head = "import logging, torch\nfrom dataclasses import dataclass\n";
  const std::string forward = "return m.f(x, self.linear.weight, 1)";
  const std::string answers[] = {
      Answer(init, forward) + "if __name__ == '__main__':\n  ModelNew.forward = print\n  raise 1\n",
      head + "logging.raiseExceptions = False\n" + Answer(init, forward),
      head + "@dataclass\nclass Config:\n  n: int = 1\n" + Answer(init, forward),
      Answer(init,
             "return self.launch(x, self.linear.weight)\n  @staticmethod\n  def launch(x, w):\n"
             "    return m.f(x, w, 1)"),
      Answer(init, forward + "\n  def extra_repr(self):\n    return '{n}'.format(**self.__dict__)"),
      Answer(init, "with torch.no_grad():\n      " + forward),
      Answer(init + "\n    self.launch = Launch()", "return self.launch(x, self.linear.weight)",
             std::string(kModule) +
                 "class Launch:\n  def __call__(self, x, w):\n    return m.f(x, w, 1)\n"
                 "  def forward(self, x, w):\n    return x\n"),
      Answer(init + "\n    try:\n      raise ValueError('no')\n    except ValueError:\n      pass",
             forward),
  };
  for (const std::string& text : answers) {
    EXPECT_TRUE(Has(SourceOf(text), "f(x, linear_weight, 1)")) << text;
  }
}

TEST(Extract, SurvivesHostileText) {
  const std::string deep(200000, '(');
  const std::string chain = "x" + [] {
    std::string text;
    for (int i = 0; i < 50000; ++i) text += ".a";
    return text;
  }();
  for (const std::string& text :
       {deep, std::string("a\0b", 3), std::string(3000000, 'x'), std::string("\xff\xfe"),
        std::string("x = ") + chain, "x = " + std::string(100000, '-') + "1",
        Answer("pass", "return m.f(x, x, 9 ** 9 ** 9 ** 9)"),
        Answer("pass", "return m.f(x, x, 1 << (1 << 62))"),
        Answer("pass", "return m.f(x, x, 'a' * 10 ** 12)"),
        Answer("pass", "return m.f(x, x, '{:>999999999}'.format(1))"),
        Answer("pass", "return m.f(x, x, f'{1:>999999999}')"),
        Answer("pass", "return self.forward(x)"),
        Answer("self.a = self", "for i in range(10 ** 18): pass\n    return m.f(x, x, 1)"),
        Answer("pass", "while True: pass"), Answer("pass", "return m.f(*x)")}) {
    const std::string why = RefusalOf(text);
    EXPECT_FALSE(why.empty());
    EXPECT_LE(why.size(), 500u);
    EXPECT_FALSE(Has(why, "\n"));
  }
}

}  // namespace
}  // namespace cupel::build
