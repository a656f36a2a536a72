// Tests the child processes of `cupel confirm` without a GPU. A Python module replaces the
// extension, and the CPU is the device.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "app/confirm/confirm_child.h"
#include "app/confirm/confirm_files.h"
#include "build/build.h"
#include "os/temp_dir.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

/// The case y = x * scale + sum(shift), where x is a view of every second of six elements.
struct Question {
  std::vector<float> x = {1, -1, 2, -1, 3, -1};
  std::vector<float> shift = {10, 20};
  std::vector<float> reference = {32, 34, 36};
  std::vector<double> truth = {32, 34, 36};
  task::Case wanted;

  template <typename T>
  static task::Tensor Over(DType dtype, const std::vector<T>& data, std::vector<int64_t> shape) {
    task::Tensor tensor;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.strides = task::ContiguousStrides(tensor.shape);
    tensor.storage = std::as_bytes(std::span(data));
    return tensor;
  }

  Question() {
    task::Tensor strided = Over(DType::kF32, x, {3});
    strided.strides = {2};
    std::vector<task::Value> tuple = {{Over(DType::kF32, shift, {2})}, {int64_t{-7}}};
    wanted.args = {{strided}, {2.0}, {tuple}, {task::None{}}, {true}, {std::string("sum")}};
    task::Output output;
    output.shape = {3};
    output.reference = Over(DType::kF32, reference, {3});
    output.truth = Over(DType::kF64, truth, {3});
    output.error_scale = 1e-6;
    wanted.outputs.push_back(std::move(output));
  }
};

class Confirm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("CUPEL_HOME", CUPEL_SOURCE_DIR, 1);
    auto created = ConfirmChildren::Create("", 0);
    if (created) {
      children_ = new ConfirmChildren(std::move(*created));
    } else {
      unavailable_ = created.error().ToString();
    }
  }
  static void TearDownTestSuite() {
    delete children_;
    children_ = nullptr;
  }
  void SetUp() override {
    if (children_ == nullptr) GTEST_SKIP() << unavailable_;
    for (const char* name : {"module", "in", "out"}) fs::create_directory(folder_.path() / name);
    ASSERT_TRUE(WriteArguments(question_.wanted.args, folder_.path() / "in" / "arguments"));
  }

  /// Runs a module whose function `forward` has this body.
  ChildReply Call(const std::string& body, const std::vector<std::string>& ways = {},
                  std::chrono::seconds deadline = std::chrono::minutes(2)) {
    const fs::path module = folder_.path() / "module" / "candidate.py";
    std::ofstream(module) << "import torch\ndef forward(x, scale, shift, none, flag, word):\n"
                          << body;
    const Json request{{"module", module.string()},
                       {"name", "candidate"},
                       {"function", "forward"},
                       {"arguments", (folder_.path() / "in" / "arguments").string()},
                       {"folder", (folder_.path() / "out").string()},
                       {"device", "cpu"},
                       {"ways", ways},
                       {"repeats", 10}};
    auto reply =
        children_->RunConfined("candidate", request, {folder_.path() / "in", module.parent_path()},
                               folder_.path() / "out", false, deadline);
    EXPECT_TRUE(reply) << (reply ? "" : reply.error().ToString());
    return reply ? *reply : ChildReply{};
  }

  std::string Codes(const Json& reported) {
    std::string codes;
    for (const auto& reason : JudgeResults(reported, folder_.path() / "out", question_.wanted)) {
      codes += reason.code + " ";
    }
    return codes;
  }

  static ConfirmChildren* children_;
  static std::string unavailable_;
  os::TempDir folder_ = *os::TempDir::Create();
  Question question_;
};

ConfirmChildren* Confirm::children_ = nullptr;
std::string Confirm::unavailable_;

constexpr const char* kRight =
    "  assert x.stride() == (2,) and shift[1] == -7 and none is None and flag is True\n"
    "  assert word == 'sum' and isinstance(shift, tuple)\n"
    "  return x * scale + shift[0].sum()\n";

TEST_F(Confirm, PassesArgumentsAndJudgesResults) {
  const ChildReply reply = Call(kRight, {"benchmark", "nonsense"});
  ASSERT_EQ(reply.failure, "");
  EXPECT_EQ(Codes(reply.json["first"]), "");
  EXPECT_EQ(Codes(reply.json["last"]), "");
  EXPECT_GT(reply.json["ways"]["benchmark"]["median_us"].get<double>(), 0);
}

TEST_F(Confirm, DetectsWrongResults) {
  ChildReply reply = Call("  return x * scale + 1\n");
  EXPECT_EQ(Codes(reply.json["first"]), "wrong_result ");
  reply = Call("  return [x * scale + 30]\n");
  EXPECT_EQ(Codes(reply.json["first"]), "wrong_return ");
  reply = Call("  return (x * scale + 30).double()\n");
  EXPECT_EQ(Codes(reply.json["first"]), "wrong_dtype ");
}

TEST_F(Confirm, DetectsResultsThatTurnWrongLater) {
  const ChildReply reply = Call(
      "  forward.calls = getattr(forward, 'calls', 0) + 1\n"
      "  return x * scale + (30 if forward.calls < 2 else 31)\n");
  EXPECT_EQ(Codes(reply.json["first"]), "");
  EXPECT_EQ(Codes(reply.json["last"]), "wrong_result ");
}

TEST_F(Confirm, RejectsInvalidDescriptionsOfResults) {
  const fs::path out = folder_.path() / "out";
  std::ofstream(out / "short") << "1234";
  const auto described = [](const char* file, const char* dtype, std::vector<int64_t> shape) {
    return Json{{"is_tuple", false},
                {"results", {{{"file", file}, {"dtype", dtype}, {"shape", shape}}}}};
  };
  EXPECT_EQ(Codes(described("short", "float32", {3})), "wrong_return ");
  EXPECT_EQ(Codes(described("short", "float32", {int64_t{1} << 62, 16})), "wrong_return ");
  EXPECT_EQ(Codes(described("short", "complex64", {1})), "wrong_return ");
  EXPECT_EQ(Codes(described("../in/arguments.bin", "float32", {3})), "wrong_return ");
  EXPECT_EQ(Codes(described("missing", "float32", {3})), "wrong_return ");
  EXPECT_EQ(Codes(Json{{"is_tuple", false}, {"results", {nullptr}}}), "wrong_return ");
  EXPECT_EQ(Codes(Json::object()), "wrong_return ");
}

TEST_F(Confirm, SandboxBlocksFilesAndNetwork) {
  const os::TempDir secret = *os::TempDir::Create();
  std::ofstream(secret.path() / "secret") << "secret\n";
  for (const SandboxLevel level : {SandboxLevel::kWide, SandboxLevel::kFull}) {
    children_->Use(level);
    const ChildReply reply = Call(fmt::format(
        "  import os, socket\n"
        "  for attempt in (lambda: open('{0}/secret').read(), lambda: open('{0}/x', 'w'),\n"
        "                  lambda: open(__file__, 'w'), lambda: os.kill({1}, 0),\n"
        "                  lambda: socket.create_connection(('127.0.0.1', 22), 1)):\n"
        "    try:\n      attempt()\n    except OSError:\n      continue\n"
        "    raise RuntimeError('got out')\n"
        "  open('mine', 'w').close()\n{2}",
        secret.path().string(), ::getpid(), kRight));
    ASSERT_EQ(reply.failure, "") << Describe(level);
    EXPECT_EQ(Codes(reply.json["first"]), "");
  }
}

TEST_F(Confirm, TimesPyTorchItself) {
  const fs::path source = CUPEL_SOURCE_DIR;
  for (const char* direction : {"forward", "backward"}) {
    const fs::path code = source / "tasks/mnist_linear" / fmt::format("func_{}.py", direction);
    const Json request{{"oracle", (source / "src/oracle/py/oracle.py").string()},
                       {"task",
                        {{"path", code.string()},
                         {"direction", direction},
                         {"name", "mnist_linear"},
                         {"hash", ""},
                         {"format", "folder"}}},
                       {"init", Json::object()},
                       {"inputs", Json::object()},
                       {"seed", "18446744073709551615"},
                       {"device", "cpu"},
                       {"kinds", {"eager"}},
                       {"ways", {"benchmark", "events"}},
                       {"repeats", 10}};
    const auto reply = children_->RunTrusted("reference", request, std::chrono::minutes(2));
    ASSERT_TRUE(reply) << reply.error().ToString();
    ASSERT_EQ(reply->failure, "");
    const Json& eager = reply->json["eager"];
    ASSERT_TRUE(eager.contains("benchmark")) << eager.dump();
    EXPECT_GT(eager["benchmark"]["median_us"].get<double>(), 0);
    EXPECT_TRUE(eager["events"].contains("failure") || eager["events"].contains("median_us"));
  }
}

TEST_F(Confirm, ReportsCompileErrors) {
  if (!build::FindToolkit()) GTEST_SKIP() << "needs nvcc";
  const fs::path source = folder_.path() / "module" / "kernel.cu";
  std::ofstream(source) << "int f() {\n  return undefined_name;\n}\n";
  const Json request{{"name", "candidate"},
                     {"source", source.string()},
                     {"flags", {"-O3"}},
                     {"folder", (folder_.path() / "out").string()},
                     {"include_roots", Json::array()},
                     {"arch_list", "8.6"}};
  const auto reply = children_->RunConfined("build", request, {source}, folder_.path() / "out",
                                            false, std::chrono::minutes(5));
  ASSERT_TRUE(reply) << reply.error().ToString();
  EXPECT_NE(reply->failure.find("kernel.cu(2)"), std::string::npos) << reply->failure;
  EXPECT_NE(reply->failure.find("undefined_name"), std::string::npos) << reply->failure;
}

TEST_F(Confirm, ReportsCrashesAndHangs) {
  EXPECT_NE(Call("  import os\n  os.abort()\n").failure.find("SIGABRT"), std::string::npos);
  EXPECT_NE(Call("  raise ValueError('no such shape')\n").failure.find("no such shape"),
            std::string::npos);
  EXPECT_NE(Call("  while True: pass\n", {}, std::chrono::seconds(5)).failure.find("5 s"),
            std::string::npos);
}

}  // namespace
}  // namespace cupel::app
