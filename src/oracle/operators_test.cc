// Tests operators with this machine's PyTorch. Reported as skipped if there is none.
// SPDX-License-Identifier: Apache-2.0
#include "oracle/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/json.h"
#include "oracle/python.h"
#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

using plan::Operator;
using plan::OperatorValue;
using plan::View;
using testing::HasSubstr;

/// One process serves all tests: PyTorch takes seconds to start.
struct SharedRunner {
  os::TempDir folder = *os::TempDir::Create();
  std::shared_ptr<plan::OperatorRunner> runner;

  SharedRunner() {
    OperatorOptions options;
    options.script = std::filesystem::path(CUPEL_SOURCE_DIR) / "src/oracle/py/operators.py";
    options.cache = folder.path();
    runner = MakeOperatorRunner(std::move(options));
  }
};

class OperatorsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { shared_ = std::make_unique<SharedRunner>(); }
  static void TearDownTestSuite() { shared_.reset(); }
  void SetUp() override {
    const auto python = FindPython("", shared_->folder.path() / "pythons.json");
    if (!python) GTEST_SKIP() << python.error().ToString();
    runner_ = shared_->runner;
  }

  Json Describe(const std::string& name, const std::string& arguments,
                const std::string& storages) {
    const auto question = ParseJson("{\"name\": \"" + name + "\", \"arguments\": " + arguments +
                                        ", \"storages\": " + storages + "}",
                                    "question");
    EXPECT_TRUE(question);
    const auto answer = runner_->Describe(*question);
    EXPECT_TRUE(answer) << answer.error().ToString();
    return answer ? *answer : Json();
  }

  std::string Run(const Operator& work, bool in_float64 = false) {
    const auto problem = runner_->Run(work, {.in_float64 = in_float64}, [&](int buffer) {
      return std::as_writable_bytes(std::span(memory_[static_cast<size_t>(buffer)]));
    });
    EXPECT_TRUE(problem) << problem.error().ToString();
    return problem ? *problem : "";
  }

  static std::unique_ptr<SharedRunner> shared_;
  std::shared_ptr<plan::OperatorRunner> runner_;
  std::vector<std::vector<float>> memory_;
};

std::unique_ptr<SharedRunner> OperatorsTest::shared_;

OperatorValue Int(int64_t value) { return {value}; }
View Floats(int buffer, int64_t offset, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  return {{buffer, offset}, DType::kF32, std::move(shape), std::move(strides)};
}

constexpr char kTwoByThree[] =
    R"({"view": {"at": [0, 0], "dtype": "float32", "shape": [2, 3], "strides": [3, 1]}})";

TEST_F(OperatorsTest, KnowsTheSchemas) {
  const auto schemas = runner_->Schemas();
  ASSERT_TRUE(schemas) << schemas.error().ToString();
  EXPECT_GT(schemas->size(), 1000u);
  EXPECT_THAT(*schemas, testing::Contains(HasSubstr("aten::mm(Tensor self, Tensor mat2")));
  for (const char* name :
       {"aten::rand(", "aten::bernoulli(", "aten::nonzero(", "aten::from_file(", "aten::item(",
        "aten::resize_(", "aten::_unsafe_index(", "aten::embedding_bag("}) {
    EXPECT_THAT(*schemas, testing::Not(testing::Contains(testing::StartsWith(name)))) << name;
  }
}

TEST_F(OperatorsTest, DescribesNewMemoryAliasesAndWrites) {
  const std::string x = kTwoByThree;
  const Json sum = Describe("aten::sum.dim_IntList",
                            "[" + x + R"(, {"list": [{"int": 1}]}, true, null])", "[24]");
  EXPECT_EQ(sum["outputs"][0]["shape"], (std::vector<int>{2, 1}));
  EXPECT_TRUE(sum["outputs"][0]["storage"].is_null());
  EXPECT_EQ(sum["outputs"][0]["bytes"], 8);
  const Json transposed = Describe("aten::t", "[" + x + "]", "[24]");
  EXPECT_EQ(transposed["outputs"][0]["storage"], 0);
  EXPECT_EQ(transposed["outputs"][0]["strides"], (std::vector<int>{1, 3}));
  const Json added =
      Describe("aten::add_.Scalar", "[" + x + R"(, {"int": 1}, {"int": 1}])", "[24]");
  EXPECT_EQ(added["mutated"], std::vector<int>{0});
}

TEST_F(OperatorsTest, RefusesWhatDependsOnMoreThanItsArguments) {
  const std::string x = kTwoByThree;
  for (const auto& [name, arguments] : std::vector<std::pair<std::string, std::string>>{
           {"aten::bernoulli", "[" + x + ", null]"},
           {"aten::dropout", "[" + x + R"(, {"float": 0.5}, true])"},
           {"aten::nonzero", "[" + x + "]"},
           {"aten::from_file", R"(["/etc/passwd", null, {"int": 1}, null, null, null, null])"},
           {"aten::item", "[" + x + "]"},
           {"prim::device", "[" + x + "]"},
           {"aten::__class__", "[]"},
           {"aten::mm.__init__", "[]"},
           {"os.system", "[]"}}) {
    EXPECT_TRUE(Describe(name, arguments, "[24]").contains("refused")) << name;
  }
  EXPECT_FALSE(Describe("aten::dropout", "[" + x + R"(, {"float": 0.5}, false])", "[24]")
                   .contains("refused"));
}

TEST_F(OperatorsTest, SaysWhatIsWrongWithACall) {
  const std::string x = kTwoByThree;
  EXPECT_THAT(Describe("aten::mm", "[" + x + ", " + x + "]", "[24]")["failure"].get<std::string>(),
              HasSubstr("same reduction dim"));
  for (const char* arguments :
       {"[]", "[7]", R"([{"view": {"at": [9, 0]}}, null])", R"([{"list": "x"}, {}])"}) {
    const Json answer = Describe("aten::mm", arguments, "[24]");
    EXPECT_TRUE(answer.contains("failure") || answer.contains("refused")) << arguments;
  }
}

TEST_F(OperatorsTest, ExecutesOnStridedViews) {
  memory_ = {{0, 1, 2, 3, 4, 5, 6, 7}, {-1, -1, -1}};
  Operator work;
  work.name = "aten::sum.dim_IntList";
  // Rows begin at element 1 and are 3 apart: {1, 2}, {4, 5}.
  work.arguments = {
      {Floats(0, 4, {2, 2}, {3, 1})}, {std::vector<OperatorValue>{Int(1)}}, {false}, {}};
  work.results = {Floats(1, 4, {2}, {1})};
  EXPECT_EQ(Run(work), "");
  EXPECT_EQ(memory_[1], (std::vector<float>{-1, 3, 9}));
}

TEST_F(OperatorsTest, ChangesArgumentsInPlace) {
  memory_ = {{1, 2, 3}, {10, 20, 30}};
  Operator work;
  work.name = "aten::add_.Tensor";
  work.arguments = {{Floats(0, 0, {3}, {1})}, {Floats(1, 0, {3}, {1})}, Int(2)};
  work.mutated = {0};
  work.results = {View()};
  work.results[0].address.buffer = plan::kNoneOutput;
  EXPECT_EQ(Run(work), "");
  EXPECT_EQ(memory_[0], (std::vector<float>{21, 42, 63}));
  EXPECT_EQ(memory_[1], (std::vector<float>{10, 20, 30}));
}

TEST_F(OperatorsTest, ComputesInFloat64) {
  memory_.resize(2, std::vector<float>(4));  // two doubles each
  const double values[] = {1e-20, 1.0};
  std::memcpy(memory_[0].data(), values, sizeof values);
  Operator work;
  work.name = "aten::cumsum";
  work.arguments = {{View{{0, 0}, DType::kF64, {2}, {1}}}, Int(0), Int(5)};  // to float16
  work.results = {View{{1, 0}, DType::kF64, {2}, {1}}};
  EXPECT_EQ(Run(work, true), "");
  double got[2] = {};
  std::memcpy(got, memory_[1].data(), sizeof got);
  EXPECT_EQ(got[0], 1e-20);
  EXPECT_EQ(got[1], 1.0);
}

TEST_F(OperatorsTest, RejectsResultsOfAnotherShape) {
  memory_ = {{1, 2, 3}, {0, 0, 0}};
  Operator work;
  work.name = "aten::relu";
  work.arguments = {{Floats(0, 0, {3}, {1})}};
  work.results = {Floats(1, 0, {2}, {1})};
  EXPECT_THAT(Run(work), HasSubstr("another shape"));
  EXPECT_EQ(memory_[1], (std::vector<float>{0, 0, 0}));
}

}  // namespace
}  // namespace cupel::oracle
