// SPDX-License-Identifier: Apache-2.0
#include "evolve/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::evolve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

task::Tensor Floats(std::vector<int64_t> shape) {
  task::Tensor tensor;
  tensor.strides = task::ContiguousStrides(shape);
  tensor.shape = std::move(shape);
  return tensor;
}

/// Returns one made-up case, or the failure of a reference.
class FakeOracle final : public oracle::Oracle {
 public:
  using Oracle::Open;
  using Oracle::OpenSeeds;

  Result<std::unique_ptr<Stream>> Open(const task::Task&, task::Direction,
                                       const task::Setting& setting, int,
                                       std::optional<uint64_t> seed, bool,
                                       oracle::Distribution) override {
    asked.push_back(setting.id);
    EXPECT_TRUE(seed.has_value());  // otherwise the text would differ each time
    return std::make_unique<OneCase>(args, fails, changed);
  }
  Result<std::unique_ptr<Stream>> OpenSeeds(const task::Task&, task::Direction,
                                            const task::Setting&, const std::vector<uint64_t>&,
                                            oracle::Distribution) override {
    return Fail(ErrorCode::kInternal, "not asked for");
  }
  const std::vector<std::string>& warnings() const override { return warnings_; }

  std::vector<task::Value> args;
  bool fails = false;
  int changed = -1;  // the argument that is the second result
  std::vector<std::string> asked;

 private:
  class OneCase final : public Stream {
   public:
    OneCase(std::vector<task::Value> args, bool fails, int changed)
        : args_(std::move(args)), fails_(fails), changed_(changed) {}
    Result<std::optional<oracle::CaseOutcome>> Next() override {
      if (std::exchange(done_, true)) return std::optional<oracle::CaseOutcome>();
      if (fails_) return oracle::SettingFailure{"shapes do not match", false};
      task::Case drawn;
      drawn.seed = 777777;
      drawn.args = args_;
      drawn.outputs.resize(2);
      drawn.outputs[0].name = "gradient of x";
      drawn.outputs[0].shape = {64, 10};
      drawn.outputs[1].name = "gradient of eps";
      drawn.outputs[1].is_none = changed_ < 0;
      drawn.outputs[1].argument = changed_;
      drawn.returns_tuple = changed_ < 0;
      return std::optional<oracle::CaseOutcome>(std::move(drawn));
    }

   private:
    std::vector<task::Value> args_;
    bool fails_, done_ = false;
    int changed_;
  };
  std::vector<std::string> warnings_;
};

class OperationTest : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = os::TempDir::Create();
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    task_.name = "norm";
    task_.title = "A norm";
    const auto setting = [](const char* id, task::SettingKind kind, int64_t batch, int64_t width) {
      task::Setting made;
      made.id = id;
      made.kind = kind;
      made.inputs = Json{{"batch_size", batch}};
      made.init = Json{{"width", width}, {"mode", "fast"}};
      return made;
    };
    for (auto& settings : task_.settings) {
      settings = {setting("single-0", task::SettingKind::kSingle, 64, 128),
                  setting("multi-0", task::SettingKind::kMulti, 64, 128),
                  setting("multi-1", task::SettingKind::kMulti, 4, 128),
                  setting("heldout-0", task::SettingKind::kHeldout, 7, 99991)};
    }
    task::Tensor strided = Floats({128, 10});
    strided.strides = {1, 128};
    oracle_.args = {task::Value{Floats({64, 128})}, task::Value{strided}, task::Value{1e-5},
                    task::Value{task::None{}}, task::Value{int64_t{3}}};
  }

  Result<Operation> Of(const std::string& code, task::Direction direction) {
    const auto file = folder_->path() / "code.py";
    EXPECT_TRUE(os::WriteFileAtomically(file, code));
    task_.code[static_cast<int>(direction)] = file;
    return Describe(task_, direction, oracle_, device::All()[0]);
  }

  std::optional<os::TempDir> folder_;
  task::Task task_;
  FakeOracle oracle_;
};

constexpr const char* kForward =
    "# A norm.\n# SPDX-License-Identifier: Apache-2.0\nimport torch\n\n"
    "def forward_fn(x: torch.Tensor, w, eps=(1, 2),\n               bias=None, *rest):\n"
    "    return x @ w\n";

TEST_F(OperationTest, NamesArgumentsShapesAndRanges) {
  const auto operation = Of(kForward, task::Direction::kForward);
  ASSERT_TRUE(operation) << operation.error().ToString();
  ASSERT_EQ(operation->calls.size(), 1u);
  EXPECT_THAT(operation->calls[0].arguments,
              ElementsAre("x: float32[64, 128]", "w: float32[128, 10] with strides (1, 128)",
                          "eps: float: 1e-05", "bias: None", "*rest: int: 3"));
  EXPECT_THAT(
      operation->calls[0].outputs,
      ElementsAre("gradient of x: float32[64, 10]", HasSubstr("gradient of eps: not requested")));
  EXPECT_THAT(operation->ranges, ElementsAre(Pair("batch_size", "64, 4")));
  EXPECT_THAT(oracle_.asked, ElementsAre("single-0"));
}

TEST_F(OperationTest, SaysWhichArgumentsAreChanged) {
  const auto usual = Of(kForward, task::Direction::kForward);
  ASSERT_TRUE(usual);
  EXPECT_THAT(Text(*usual), HasSubstr("no write to an input."));
  oracle_.changed = 1;
  const auto operation = Of(kForward, task::Direction::kForward);
  ASSERT_TRUE(operation);
  const std::string text = Text(*operation);
  EXPECT_THAT(text,
              HasSubstr("forward returns torch::Tensor:\n  -> gradient of x: float32[64, 10]\n"
                        "  It writes to this argument, in place: gradient of eps"));
  EXPECT_THAT(text, HasSubstr("no write to an input except those that it has to change."));
}

TEST_F(OperationTest, NamesTheArgumentsOfBackward) {
  const auto operation =
      Of("class AutogradFunction:\n  backward_fn = None\n  def backward(ctx, grad):\n    x, w = "
         "ctx.saved\n    return AutogradFunction.backward_fn(grad, x.view(2, 3), w)\n",
         task::Direction::kBackward);
  ASSERT_TRUE(operation);
  EXPECT_THAT(operation->calls[0].arguments[0], "grad: float32[64, 128]");
  EXPECT_THAT(operation->calls[0].arguments[1], HasSubstr("x.view(2, 3): float32[128, 10]"));
  EXPECT_THAT(operation->calls[0].arguments[3], "argument 3: None");
  EXPECT_THAT(Text(*operation), HasSubstr("`backward`"));
}

TEST_F(OperationTest, NamesTheParametersOfAKernelBenchProblem) {
  task_.format = task::Format::kKernelBench;
  const auto operation =
      Of("class Block:\n  def forward(self, q):\n    pass\nclass Model:\n  def forward(self, x):\n"
         "    return x\n",
         task::Direction::kForward);
  ASSERT_TRUE(operation);
  EXPECT_THAT(operation->calls[0].arguments[0], "x: float32[64, 128]");
  EXPECT_THAT(operation->calls[0].arguments[1], HasSubstr("state_dict() entry 0: float32"));
}

TEST_F(OperationTest, TextIsDeterministicAndContainsNoSecret) {
  const auto operation = Of(kForward, task::Direction::kForward);
  ASSERT_TRUE(operation);
  const std::string text = Text(*operation);
  EXPECT_EQ(text, Text(*Of(kForward, task::Direction::kForward)));
  EXPECT_THAT(text, HasSubstr("def forward_fn(x"));
  EXPECT_THAT(text, Not(HasSubstr("SPDX")));
  EXPECT_THAT(text, HasSubstr("batch_size=64 width=128 mode=fast"));
  EXPECT_THAT(text, HasSubstr("sm_90"));
  EXPECT_THAT(text, HasSubstr("`torch::empty`"));
  EXPECT_THAT(text, Not(HasSubstr("777777")));  // the seed
  EXPECT_THAT(text, Not(HasSubstr("99991")));   // a held-out size
  EXPECT_THAT(text, Not(HasSubstr(folder_->path().string())));
  EXPECT_LT(text.size(), 7000u);
}

TEST_F(OperationTest, DescribesTheFormOfThePythonFile) {
  auto operation = Of(kForward, task::Direction::kForward);
  ASSERT_TRUE(operation);
  EXPECT_THAT(Text(*operation), Not(HasSubstr("ModelNew")));
  operation->form = Form::kPython;
  EXPECT_THAT(Text(*operation), HasSubstr("class ModelNew"));
  EXPECT_THAT(Text(*operation), Not(HasSubstr("The C++ function")));
  EXPECT_THAT(Text(*operation), HasSubstr("PyTorch that compute are rejected"));
  operation->operators.names = {"aten::sum"};
  EXPECT_THAT(Text(*operation),
              HasSubstr("only these may compute a part of the result: aten::sum"));
  operation->operators.all = true;
  EXPECT_THAT(Text(*operation), Not(HasSubstr("PyTorch that compute are rejected")));
  // What is for .cu files only would contradict the form.
  EXPECT_THAT(Text(*operation), Not(HasSubstr("PYBIND11_MODULE")));
  EXPECT_THAT(Text(*operation), Not(HasSubstr("-O3 --use_fast_math")));
}

// The judge constructs ModelNew so (constructor_of in oracle/py/signature.py).
TEST_F(OperationTest, SaysWithWhatModelNewIsConstructed) {
  auto operation = Of(kForward, task::Direction::kForward);
  ASSERT_TRUE(operation);
  operation->form = Form::kPython;
  EXPECT_THAT(Text(*operation), HasSubstr("constructed with the keyword\narguments of Model"));
  operation = Of(std::string(kForward) + "def get_init_inputs(n=3):\n    return [n, 2.0]\n",
                 task::Direction::kForward);
  ASSERT_TRUE(operation);
  operation->form = Form::kPython;
  EXPECT_THAT(Text(*operation),
              HasSubstr("constructed with the list that\nget_init_inputs returns"));
}

TEST_F(OperationTest, MarksReducedSizes) {
  task_.settings[0][0].reduced = "batch_size=64 (of 4096)";
  const auto operation = Of(kForward, task::Direction::kForward);
  ASSERT_TRUE(operation);
  EXPECT_THAT(Text(*operation), HasSubstr("smaller than the task's own: batch_size=64 (of 4096)"));
}

TEST_F(OperationTest, CutsLongCodeAtALineEnd) {
  std::string code = kForward;
  for (int i = 0; i < 3000; ++i) code += "x = x + 1\n";
  const auto operation = Of(code, task::Direction::kForward);
  ASSERT_TRUE(operation);
  EXPECT_LT(operation->code.size(), kMaxCode + 100);
  EXPECT_TRUE(operation->code.ends_with("x = x + 1\n# … the rest of the file is omitted"));
}

TEST_F(OperationTest, SaysWhichCodeCountsWhereTheReferenceAsks) {
  const auto plain = Of(kForward, task::Direction::kForward);
  ASSERT_TRUE(plain);
  EXPECT_THAT(Text(*plain), Not(HasSubstr("asks is_cuda")));
  const auto asks = Of(std::string(kForward) + "# x.is_cuda\n", task::Direction::kForward);
  ASSERT_TRUE(asks);
  EXPECT_THAT(Text(*asks), HasSubstr("Where the code asks is_cuda"));
}

TEST_F(OperationTest, ReportsAFailingReference) {
  oracle_.fails = true;
  const auto operation = Of(kForward, task::Direction::kForward);
  ASSERT_FALSE(operation);
  EXPECT_EQ(operation.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(operation.error().message, HasSubstr("shapes do not match"));
}

}  // namespace
}  // namespace cupel::evolve
