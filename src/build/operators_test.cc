// SPDX-License-Identifier: Apache-2.0
#include "build/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::build {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

OperatorHeaders Declare(const std::string& schema, const std::string& name) {
  return DeclareOperators({schema}, {name});
}

TEST(OperatorsIn, FindsCallsOfMembersAndQualifiedNames) {
  const std::vector<std::string> names = {"cat", "max", "mean", "mm", "mm_out", "relu_", "sum"};
  EXPECT_THAT(
      OperatorsIn("auto y = x.sum(1) + torch::cat({a, b}); p->relu_(); at::mm_out(c, a, b);",
                  names),
      ElementsAre("cat", "mm", "relu_", "sum"));
  // A function of the kernel's own.
  EXPECT_THAT(OperatorsIn("float m = max(a, b); int mean = 3; summary.sums();", names),
              ElementsAre());
  EXPECT_THAT(OperatorsIn("using namespace at; float m = max(a, b);", names), Contains("max"));
  EXPECT_FALSE(CallsUnqualified("using namespace atlas; using namespace torch::indexing;"));
  EXPECT_TRUE(CallsUnqualified("using namespace torch::indexing;\nusing namespace torch ;"));
  EXPECT_THAT(OperatorsIn("x\n    .mean()", names), ElementsAre("mean"));
}

TEST(DeclareOperators, WritesAFunctionAndAMethod) {
  const auto headers = Declare(
      "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? "
      "dtype=None) -> Tensor",
      "sum");
  EXPECT_EQ(headers.methods,
            "Tensor sum(OptionalIntArrayRef dim, bool keepdim = false, "
            "optional<ScalarType> dtype = nullopt) const { return "
            "cupel::shim::CallOperator<Tensor>(\"aten::sum.dim_IntList\", static_cast<const "
            "Tensor&>(*this), dim, keepdim, dtype); }\n");
  EXPECT_EQ(headers.functions,
            "inline Tensor sum(const Tensor& self, OptionalIntArrayRef dim, bool keepdim = false, "
            "optional<ScalarType> dtype = nullopt) { return "
            "cupel::shim::CallOperator<Tensor>(\"aten::sum.dim_IntList\", self, dim, keepdim, "
            "dtype); }\n");
}

TEST(DeclareOperators, PutsResultsFirstInOutVariants) {
  const auto headers =
      Declare("aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)", "mm");
  EXPECT_EQ(headers.methods, "");
  EXPECT_THAT(headers.functions, HasSubstr("inline Tensor& mm_out(Tensor& out, const Tensor& self, "
                                           "const Tensor& mat2) { "
                                           "cupel::shim::CallOperator<Tensor>(\"aten::mm.out\", "
                                           "self, mat2, out); return const_cast<Tensor&>(out); }"));
}

TEST(DeclareOperators, ReturnsTheTensorThatItChanges) {
  const auto headers = Declare("aten::relu_(Tensor(a!) self) -> Tensor(a!)", "relu_");
  EXPECT_THAT(headers.methods, testing::StartsWith("Tensor& relu_() const { "));
  EXPECT_THAT(headers.methods,
              HasSubstr("return const_cast<Tensor&>(static_cast<const Tensor&>(*this));"));
}

TEST(DeclareOperators, CollectsOptionsOfFactories) {
  const auto headers = Declare(
      "aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? "
      "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
      "linspace");
  EXPECT_EQ(headers.methods, "");
  EXPECT_THAT(headers.functions,
              HasSubstr("linspace(const Scalar& start, const Scalar& end, int64_t steps, "
                        "TensorOptions options = {})"));
}

TEST(DeclareOperators, UnderstandsDefaultsAndResults) {
  const auto conv = Declare(
      "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
      "SymInt[2] padding=0, SymInt groups=1) -> Tensor",
      "conv2d");
  EXPECT_THAT(conv.functions, HasSubstr("const optional<Tensor>& bias = nullopt, IntArrayRef "
                                        "stride = {1, 1}, IntArrayRef padding = int64_t{0}, "
                                        "int64_t groups = 1"));
  EXPECT_EQ(conv.methods, "");  // its first argument is not self
  const auto topk = Declare(
      "aten::topk(Tensor self, SymInt k, int dim=-1) -> (Tensor values, Tensor indices)", "topk");
  EXPECT_THAT(topk.methods,
              HasSubstr("std::tuple<Tensor, Tensor> topk(int64_t k, int64_t dim = -1)"));
  const auto gelu =
      Declare("aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor", "gelu");
  EXPECT_THAT(gelu.methods, HasSubstr("std::string_view approximate = \"none\""));
}

TEST(DeclareOperators, DeclaresASignatureOnce) {
  const auto headers = DeclareOperators(
      {"aten::split.sizes(Tensor self, SymInt[] split_size, int dim=0) -> Tensor[]",
       "aten::split.again(Tensor self, int[2] sizes, int dim=1) -> Tensor[]"},
      {"split"});
  EXPECT_THAT(headers.functions, HasSubstr("aten::split.sizes"));
  EXPECT_THAT(headers.functions, Not(HasSubstr("aten::split.again")));
}

TEST(DeclareOperators, DropsDefaultsThatMakeCallsAmbiguous) {
  const auto headers = DeclareOperators(
      {"aten::all(Tensor self) -> Tensor",
       "aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"},
      {"all"});
  EXPECT_THAT(headers.methods, HasSubstr("Tensor all() const"));
  EXPECT_THAT(headers.methods,
              HasSubstr("Tensor all(OptionalIntArrayRef dim, bool keepdim = false) const"));
}

TEST(DeclareOperators, SkipsWhatItCannotDeclare) {
  for (const char* schema :
       {"aten::x(Tensor self, Generator? g=None) -> Tensor", "aten::x(Tensor self) -> int",
        "aten::x(Tensor self", "prim::x(Tensor self) -> Tensor", "aten::x) -> Tensor(", ""}) {
    const auto headers = Declare(schema, "x");
    EXPECT_EQ(headers.functions + headers.methods, "") << schema;
  }
  EXPECT_THAT(Declare("aten::y(Tensor self) -> Tensor", "x").functions, Not(HasSubstr("y")));
}

}  // namespace
}  // namespace cupel::build
