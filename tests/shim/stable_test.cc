// PyTorch's stable ABI: STABLE_TORCH_LIBRARY, torch::stable::Tensor and the C functions below them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/TensorAccessor.h>
#include <torch/headeronly/macros/Export.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Deprecated.h>
#include <torch/headeronly/util/Float8_e4m3fn.h>
#include <torch/headeronly/util/Float8_e4m3fnuz.h>
#include <torch/headeronly/util/Float8_e5m2.h>
#include <torch/headeronly/util/Float8_e5m2fnuz.h>
#include <torch/headeronly/util/Half.h>
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>
#include <torch/headeronly/util/Metaprogramming.h>
#include <torch/headeronly/util/complex.h>

#include "fake_recorder.h"

namespace {

using testing::ElementsAre;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

std::tuple<Tensor, Tensor> Split(Tensor x, std::optional<Tensor> bias, double scale) {
  STD_TORCH_CHECK(scale == 2, "scale");
  const int64_t half = x.size(0) / 2;
  return {torch::stable::narrow(x, 0, 0, half), bias ? *bias : torch::stable::transpose(x, 0, 1)};
}
template <int kTimes>
void Fill(Tensor& x) {
  torch::stable::fill_(x, kTimes);
}
Tensor OnCpu(Tensor x) { return x; }

STABLE_TORCH_LIBRARY(mine, m) {
  m.def("stable_split(Tensor x, Tensor? bias=None, float scale=2) -> (Tensor, Tensor)");
  m.def("stable_fill(Tensor(a!) x) -> ()");
}
/// As code before TORCH_BOX has it.
void OnStack(StableIValue* stack, uint64_t arguments, uint64_t results) {
  const Tensor x = to<Tensor>(stack[0]);
  const auto bias = torch::stable::detail::to<std::optional<Tensor>>(stack[1]);
  const auto scale = to<double>(stack[2]);
  STD_TORCH_CHECK(arguments == 4 && results == 2 && scale == 0.5 && to<bool>(stack[3]), "words");
  stack[0] = from(x);
  stack[1] = from(bias ? *bias : torch::stable::transpose(x, 0, 1));
}

STABLE_TORCH_LIBRARY_FRAGMENT(mine, m) {
  m.def(
      "stable_stack(Tensor x, Tensor? bias, float scale, bool flag=True) -> (Tensor y, Tensor z)");
}
STABLE_TORCH_LIBRARY_FRAGMENT(mine, m) { m.def("stable_cpu(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(mine, CUDA, m) {
  m.impl("stable_split", TORCH_BOX(&Split));
  m.impl("stable_fill", &TORCH_BOX(Fill<3>));
  m.impl("stable_stack", &OnStack);
}
STABLE_TORCH_LIBRARY_IMPL(mine, CPU, m) { m.impl("stable_cpu", TORCH_BOX(&OnCpu)); }

class Stable : public testing::Test {
 protected:
  void SetUp() override { fake::Log().clear(); }
  static fake::Answer Run(const char* name, const std::vector<CupelValue>& values) {
    return fake::Run(cupel_candidate_call, name, values);
  }
  static Tensor Of(const CupelTensor& argument) {
    return Tensor(at::Tensor(cupel::shim::Borrow(argument)));
  }
};

TEST_F(Stable, LibrariesRegisterBoxedFunctionsByTheirSchemas) {
  CupelTensor x = fake::Argument({4, 3});
  EXPECT_EQ(Run("stable_split", {fake::Of(x)}).result, "(f32[2,3], f32[3,4])")
      << Run("stable_split", {fake::Of(x)}).message;
  EXPECT_EQ(Run("stable_split", {fake::Of(x), fake::Of(x)}).result, "(f32[2,3], f32[4,3])");
  EXPECT_EQ(Run("stable_fill", {fake::Of(x)}).result, "None");
  EXPECT_EQ(Run("stable_cpu", {fake::Of(x)}).result, "") << "not of the GPU";
}

TEST_F(Stable, BoxedFunctionsGetWordsOfTheirSchemas) {
  CupelTensor x = fake::Argument({4, 3});
  const auto none = CupelValue{};
  EXPECT_EQ(Run("stable_stack", {fake::Of(x), none, fake::Of(0.5)}).result, "(f32[4,3], f32[3,4])")
      << Run("stable_stack", {fake::Of(x), none, fake::Of(0.5)}).message;
  EXPECT_EQ(Run("stable_stack", {fake::Of(x), fake::Of(x), fake::Of(0.5)}).result,
            "(f32[4,3], f32[4,3])");
  EXPECT_NE(Run("stable_stack", {fake::Of(x), none, fake::Of(x)}).message, "");
}

/// What is wrong with an operator whose function is `f`.
template <class F>
std::string WrongWith(const char* schema, F f) {
  cupel::shim::Function* function = cupel::shim::MakeFunction("f", f);
  function->schema = cupel::shim::ParseSchema(schema);
  try {
    cupel::shim::ApplySchema(*function);
  } catch (const fake::Refused& refused) {
    return refused.message;
  }
  return "";
}

TEST_F(Stable, SchemasMustFitTheirFunctions) {
  const auto scale = [](const Tensor& x, double, std::optional<Tensor>) { return x; };
  EXPECT_EQ(WrongWith("f(Tensor! x, float scale=1.5, Tensor(a!)? y=None) -> Tensor", scale), "");
  EXPECT_EQ(WrongWith("f(Tensor x, int scale, Tensor? y) -> Tensor", scale),
            "the schema of f and its function differ: int scale, and the function takes float");
  EXPECT_EQ(WrongWith("f(Tensor x, float scale, Tensor y) -> Tensor", scale),
            "the schema of f and its function differ: Tensor y, and the function takes "
            "Optional[Tensor]");
  EXPECT_NE(WrongWith("f(Tensor x, float scale) -> Tensor", scale), "");
  EXPECT_NE(WrongWith("f(Tensor x, float scale, Tensor? y) -> (Tensor, Tensor)", scale), "");
  EXPECT_NE(WrongWith("f(Tensor x, float scale, Tensor? y) -> ()", scale), "");
  const auto lists = [](at::TensorList, std::vector<int64_t>, std::array<bool, 2>) {
    return std::tuple<at::Tensor, at::Tensor>();
  };
  EXPECT_EQ(WrongWith("f(Tensor[] x, SymInt[] sizes, bool[2] mask) -> (Tensor, Tensor)", lists),
            "");
  EXPECT_NE(WrongWith("f(Tensor[] x, float[] sizes, bool[2] mask) -> (Tensor, Tensor)", lists), "");
  const auto nothing = [](at::Tensor& x, int64_t) { x.zero_(); };
  EXPECT_EQ(WrongWith("f(Tensor(a!) x, *, ScalarType dtype) -> ()", nothing), "");
}

TEST_F(Stable, FloatsWithoutNegativeZero) {
  using c10::Float8_e4m3fnuz;
  using c10::Float8_e5m2fnuz;
  EXPECT_EQ(static_cast<float>(Float8_e4m3fnuz(0x7F, Float8_e4m3fnuz::from_bits())), 240);
  EXPECT_EQ(static_cast<float>(Float8_e5m2fnuz(0x01, Float8_e5m2fnuz::from_bits())), 0x1p-17);
  EXPECT_EQ(Float8_e4m3fnuz(-0.0F).x, 0);
  EXPECT_EQ(Float8_e4m3fnuz(247.0F).x, 0x7F);
  EXPECT_TRUE(Float8_e4m3fnuz(248.0F).isnan()) << "a tie, to the even number that does not exist";
  EXPECT_EQ(Float8_e4m3fnuz(-0x1.8p-10F).x, 0x82) << "a tie of subnormal numbers";
}

// Redeclared by candidates, since PyTorch's header hides it.
extern "C" AOTITorchError aoti_torch_get_current_cuda_stream(int32_t, void**);
static_assert(!std::is_convertible_v<c10::Device, torch::stable::Device>);

/// True for members that at::Tensor has and the stable ABI has not: a kernel that uses them does
/// not compile with PyTorch.
template <class T>
concept HasAtenMembers = requires(T x) { x.contiguous(); } || requires(T x) { x.options(); } ||
                         requires(T x) { x.template data_ptr<float>(); } ||
                         requires(T x) { x.zero_(); } || requires(T x) { x + x; };
static_assert(HasAtenMembers<at::Tensor> && !HasAtenMembers<Tensor>);
static_assert(!std::is_convertible_v<Tensor, at::Tensor>);

TEST_F(Stable, TensorsHaveShapesTypesAndMemory) {
  CupelTensor argument = fake::Argument({2, 3}, 5);
  const Tensor x = Of(argument);
  EXPECT_TRUE(x.defined() && x.is_cuda() && x.is_contiguous() && !x.is_cpu());
  EXPECT_THAT(x.sizes(), ElementsAre(2, 3));
  EXPECT_THAT(x.strides(), ElementsAre(3, 1));
  EXPECT_EQ(x.scalar_type(), ScalarType::Half);
  EXPECT_EQ(x.element_size(), 2u);
  EXPECT_EQ(x.const_data_ptr<torch::headeronly::Half>(), x.data_ptr());
  EXPECT_THROW(x.mutable_data_ptr<float>(), c10::Error);
  EXPECT_TRUE(x.device() == torch::stable::Device(torch::headeronly::DeviceType::CUDA, 0));
  EXPECT_FALSE(Tensor().defined());
}

TEST_F(Stable, ChecksThrowStandardErrors) {
  const auto fail = [] { STD_TORCH_CHECK(1 > 2, "no: ", 3); };
  EXPECT_THROW(fail(), std::runtime_error);
}

TEST_F(Stable, FunctionsMakeTensorsViewsAndCopies) {
  CupelTensor argument = fake::Argument({2, 6});
  const Tensor x = Of(argument);
  const Tensor y = torch::stable::new_empty(x, {3, 4}, ScalarType::BFloat16);
  EXPECT_EQ(y.scalar_type(), ScalarType::BFloat16);
  EXPECT_TRUE(y.is_cuda());
  EXPECT_FALSE(torch::stable::empty({4}).is_cuda()) << "without a device";
  EXPECT_EQ(torch::stable::empty({4}, ScalarType::Int, std::nullopt, x.device()).is_cuda(), true);
  EXPECT_THAT(torch::stable::view(x, {3, 4}).sizes(), ElementsAre(3, 4));
  EXPECT_THAT(torch::stable::flatten(x).sizes(), ElementsAre(12));
  EXPECT_THAT(torch::stable::select(x, 0, 1).sizes(), ElementsAre(6));
  EXPECT_EQ(torch::stable::to(x, ScalarType::Half).scalar_type(), ScalarType::Half);
  EXPECT_EQ(torch::stable::select(x, 0, 1).storage_offset(), 6);
  int64_t sum = 0;
  torch::stable::parallel_for(0, 5, 1, [&](int64_t from, int64_t to) { sum += to - from; });
  EXPECT_EQ(sum, 5);
}

TEST_F(Stable, HandlesAreTensors) {
  CupelTensor argument = fake::Argument({2, 3});
  const Tensor x = Of(argument);
  int64_t dim = 0, size = 0;
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(x.get(), &dim));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_size(x.get(), 1, &size));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(x.get(), &dtype));
  EXPECT_EQ(std::tuple(dim, size, dtype), std::tuple(2, 3, aoti_torch_dtype_float32()));
  const int64_t sizes[] = {5}, strides[] = {1};
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, sizes, strides, aoti_torch_dtype_int32(),
                                                  aoti_torch_device_type_cuda(), 0, &made));
  const Tensor owner(made);
  EXPECT_TRUE(owner.is_cuda());
  EXPECT_EQ(owner.numel(), 5);
}

TEST_F(Stable, DispatchesByType) {
  const auto name = [](ScalarType type) -> const char* {
    return THO_DISPATCH_V2(
        type, "name", AT_WRAP([] { return std::is_same_v<scalar_t, float> ? "float" : "half"; }),
        torch::headeronly::kFloat, torch::headeronly::kHalf);
  };
  EXPECT_STREQ(name(ScalarType::Half), "half");
  EXPECT_THROW(name(ScalarType::Int), c10::NotImplementedError);
}

}  // namespace
