// What extensions written for PyTorch use beyond tensors and launches: indexing, dispatch over any
// list of types, temporary memory, torch::nn::functional, random numbers, old names.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Dispatch_v2.h>
#include <ATen/NumericUtils.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/ThrustAllocator.h>
#include <Python.h>
#include <THC/THC.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/complex.h>
#include <c10/util/string_view.h>
#include <cublas_v2.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/extension.h>
#include <torch/nn/functional.h>

#include <ATen/cuda/NumericLimits.cuh>
#include <ATen/cuda/detail/IndexUtils.cuh>

#include "fake_recorder.h"

// Headers that only include others.
#include <ATen/CUDAGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Generator.h>
#include <ATen/NativeFunctions.h>
#include <ATen/Operators.h>
#include <ATen/ScalarOps.h>
#include <ATen/Storage.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <c10/core/Stream.h>
#include <c10/util/complex_math.h>
#include <pybind11/cast.h>
#include <pybind11/functional.h>
#include <pybind11/stl_bind.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/macros/Macros.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/nn.h>
#include <torch/serialize/tensor.h>

#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <ATen/cuda/CUDATensorMethods.cuh>

namespace {

using testing::ElementsAre;
using torch::indexing::Ellipsis;
using torch::indexing::None;
using torch::indexing::Slice;

class Extension : public testing::Test {
 protected:
  void SetUp() override { fake::Log().clear(); }
  at::Tensor x_ = at::empty({4, 5, 6}, at::kCUDA);
  std::vector<int64_t> Shape(std::initializer_list<at::indexing::TensorIndex> indices) {
    return x_.index(indices).sizes().vec();
  }
};

TEST_F(Extension, IndicesWithoutTensorsAreViews) {
  EXPECT_THAT(Shape({1}), ElementsAre(5, 6));
  EXPECT_THAT(Shape({Slice(), Slice(1, None, 2)}), ElementsAre(4, 2, 6));
  EXPECT_THAT(Shape({"...", -1}), ElementsAre(4, 5));
  EXPECT_THAT(Shape({Ellipsis, None, Slice(None, 3)}), ElementsAre(4, 5, 1, 3));
  EXPECT_THAT(Shape({None, Slice(), 2}), ElementsAre(1, 4, 6));
  EXPECT_EQ(static_cast<char*>(x_.index({Slice(), 2, Slice(3)}).data_ptr()) -
                static_cast<char*>(x_.data_ptr()),
            15 * 4);
  EXPECT_THROW(x_.index({0, 0, 0, 0}), c10::IndexError);
  EXPECT_THROW(x_.index({".."}), c10::ValueError);
  EXPECT_THAT(fake::Log(), ElementsAre());
}

TEST_F(Extension, IndicesWithTensorsAreOperators) {
  const at::Tensor rows = at::empty({7}, x_.options().dtype(at::kLong));
  fake::Log().clear();
  (void)x_.index({Slice(), rows});
  x_.index_put_({rows}, 2);
  EXPECT_THAT(fake::Log(),
              ElementsAre("operator aten::index.Tensor f32[4,5,6] list of 2", "alloc 480", "free",
                          "alloc 4", "fill f32[] 00000040",
                          "operator aten::index_put_ f32[4,5,6] list of 1 f32[] kind 1", "free"));
}

TEST_F(Extension, IndexPutWritesThroughTheView) {
  x_.index_put_({0, Slice(1, 3)}, 1);
  x_.index_put_({"...", 0}, x_.select(0, 0).select(1, 0).unsqueeze(0).unsqueeze(0));
  EXPECT_THAT(fake::Log(), ElementsAre("fill f32[2,6] 0000803f", "copy f32[4,5] <- f32[4,5]"));
}

TEST_F(Extension, ResizeKeepsMemoryThatIsLargeEnough) {
  at::Tensor t = at::empty({8}, x_.options());
  const void* before = t.data_ptr();
  t.resize_({2, 3});
  EXPECT_EQ(t.data_ptr(), before);
  EXPECT_THAT(t.sizes().vec(), ElementsAre(2, 3));
  fake::Log().clear();
  t.resize_({16});
  EXPECT_THAT(fake::Log(), ElementsAre("alloc 64", "copy f32[8] <- f32[8]", "free"));
  EXPECT_EQ(t.numel(), 16);
  const at::Tensor view = t.view({4, 4});
  EXPECT_THROW(t.resize_({32}), fake::Refused);
}

template <class T>
std::string NameOf() {
  return c10::toString(c10::CppTypeToScalarType<T>::value);
}
std::string Dispatched(at::ScalarType type) {
  std::string name;
  AT_DISPATCH_V2(type, "dispatched", AT_WRAP([&] {
                   const std::pair<int, int> commas{1, 2};
                   name = NameOf<scalar_t>() + std::to_string(commas.first + commas.second);
                 }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kHalf, at::kUInt32,
                 AT_EXPAND(AT_FLOAT8_TYPES));
  return name;
}

TEST_F(Extension, DispatchesOverAnyListOfTypes) {
  EXPECT_EQ(Dispatched(at::kFloat), "Float3");
  EXPECT_EQ(Dispatched(at::kShort), "Short3");
  EXPECT_EQ(Dispatched(at::kFloat8_e5m2), "Float8_e5m23");
  EXPECT_THROW(Dispatched(at::kBFloat16), c10::NotImplementedError);
  EXPECT_EQ(Dispatched(at::kUInt32), "UInt323");
  EXPECT_THROW(Dispatched(at::kComplexFloat), c10::NotImplementedError);
  const auto nested = [](at::ScalarType a, at::ScalarType b) {
    return AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(at::kHalf, at::kBFloat16, a, "a", [&] {
      using outer_t = scalar_t;
      return AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND5(
          at::kHalf, at::kBFloat16, at::kBool, at::kFloat8_e5m2, at::kComplexHalf, b, "b",
          [&] { return NameOf<outer_t>() + NameOf<scalar_t>(); });
    });
  };
  EXPECT_EQ(nested(at::kHalf, at::kBool), "HalfBool");
  EXPECT_EQ(nested(at::kDouble, at::kInt), "DoubleInt");
  EXPECT_THROW((AT_DISPATCH_COMPLEX_TYPES(at::kFloat, "c", [&] {})), c10::NotImplementedError);
}

TEST_F(Extension, TemporaryMemoryComesFromTheRecorder) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  {
    const c10::DataPtr owned = allocator::get()->allocate(100);
    EXPECT_NE(owned.get(), nullptr);
    allocator::raw_delete(allocator::raw_alloc(200));
    at::cuda::ThrustAllocator thrust;
    thrust.deallocate(thrust.allocate(300), 300);
    THCudaFree(nullptr, THCudaMalloc(at::globalContext().lazyInitCUDA(), 400));
  }
  EXPECT_THAT(fake::Log(), ElementsAre("alloc 100", "alloc 200", "free", "alloc 300", "free",
                                       "alloc 400", "free", "free"));
}

TEST_F(Extension, RandomNumbersAreRefusedWhenTheyAreUsed) {
  auto* generator = at::get_generator_or_default<at::CUDAGeneratorImpl>(
      c10::nullopt, at::cuda::detail::getDefaultCUDAGenerator());
  const std::lock_guard<std::mutex> lock(generator->mutex_);
  EXPECT_THROW(generator->philox_cuda_state(4), fake::Refused);
  EXPECT_EQ(fake::LastRefusal().code, "unsupported_api");
  EXPECT_EQ(std::get<1>(at::cuda::philox::unpack(at::PhiloxCudaState(3, 8))), 8u);
}

TEST_F(Extension, FunctionalCallsOperators) {
  namespace F = torch::nn::functional;
  const at::Tensor w = at::empty({5, 6}, x_.options());
  fake::Log().clear();
  (void)F::pad(x_, F::PadFuncOptions({0, 3}).value(1));
  (void)F::conv1d(x_, x_, F::Conv1dFuncOptions().stride(2).groups(5));
  (void)F::softmax(x_, F::SoftmaxFuncOptions(-1));
  (void)F::linear(x_, w);
  std::vector<std::string> calls;
  for (const std::string& line : fake::Log()) {
    if (line.find("operator") == 0) calls.push_back(line);
  }
  EXPECT_THAT(calls, ElementsAre("operator aten::pad f32[4,5,6] list of 2 kind 4 kind 3",
                                 "operator aten::conv1d f32[4,5,6] f32[4,5,6] kind 0 list of 1 "
                                 "list of 1 list of 1 5",
                                 "operator aten::softmax.int f32[4,5,6] -1 kind 0",
                                 "operator aten::linear f32[4,5,6] f32[5,6] kind 0"));
}

TEST_F(Extension, TensorInfoCollapsesDimensions) {
  namespace detail = at::cuda::detail;
  auto info = detail::getTensorInfo<float, int>(x_.narrow(1, 0, 2));
  EXPECT_EQ(info.dims, 3);
  EXPECT_EQ((detail::IndexToOffset<float, int, -1>::get(13, info)), 31);  // [1, 0, 1]
  EXPECT_EQ(info.collapseDims(), -1);
  EXPECT_EQ(info.dims, 2);
  EXPECT_EQ(info.sizes[1], 12);
  EXPECT_EQ((detail::IndexToOffset<float, int, 2>::get(13, info)), 31);
  auto kept = detail::getTensorInfo<float, int>(x_);
  EXPECT_EQ(kept.collapseDims(1), 1);
  EXPECT_EQ(kept.dims, 3);
  auto whole = detail::getTensorInfo<const float, int64_t>(x_);
  whole.collapseDims();
  EXPECT_TRUE(whole.isContiguous());
  EXPECT_TRUE(detail::canUse32BitIndexMath(x_));
  EXPECT_FALSE(detail::canUse32BitIndexMath(x_.expand({1 << 30, 4, 5, 6})));
}

TEST_F(Extension, TensorInfoHasNoBytesOfTheStack) {
  using Info = at::cuda::detail::TensorInfo<float, int>;
  alignas(Info) unsigned char memory[sizeof(Info)];
  std::memset(memory, 0xaa, sizeof(memory));
  int sizes[] = {4}, strides[] = {1};
  const Info* info = new (memory) Info(nullptr, 1, sizes, strides);
  EXPECT_EQ(info->sizes[0], 4);
  EXPECT_EQ(info->sizes[1], 0);
  EXPECT_EQ(info->strides[MAX_TENSORINFO_DIMS - 1], 0);
}

TEST_F(Extension, NumbersAreClassified) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(at::_isnan(c10::Half(NAN)));
  EXPECT_FALSE(at::_isnan(3));
  EXPECT_TRUE(at::_isinf(-kInfinity));
  EXPECT_TRUE(at::_isinf(c10::BFloat16(kInfinity)));
  EXPECT_FALSE(at::_isinf(1e300));
  EXPECT_EQ(at::numeric_limits<float>::lower_bound(), -kInfinity);
  EXPECT_EQ(at::numeric_limits<int>::upper_bound(), std::numeric_limits<int>::max());
  EXPECT_DOUBLE_EQ(at::log1p(1e-9), std::log1p(1e-9));
}

TEST_F(Extension, ComplexNumbersCompute) {
  const c10::complex<float> a(1, 2), b(3, -1);
  EXPECT_EQ(a * b, c10::complex<float>(5, 5));
  EXPECT_NEAR(std::abs(a / b - c10::complex<float>(0.1F, 0.7F)), 0, 1e-6);
  EXPECT_EQ(std::conj(a).imag(), -2);
  EXPECT_NEAR(std::exp(c10::complex<double>(0, M_PI)).real(), -1, 1e-12);
  EXPECT_EQ(sizeof(c10::complex<double>), 16u);
}

TEST_F(Extension, ChecksNeedNoSemicolon) {
  TORCH_CHECK(true, "never")
  EXPECT_THROW(STD_TORCH_CHECK(false, "x");, std::runtime_error);
}

TEST_F(Extension, CublasTakesTypesOfDataAsTypesOfComputation) {
  EXPECT_EQ(cupel_compute_type(CUDA_R_32F), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(cupel_compute_type(CUDA_R_16F), CUBLAS_COMPUTE_16F);
}

TEST_F(Extension, PythonModulesAreEmpty) {
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
  EXPECT_EQ(PyModule_Create(&definition), nullptr);
}

}  // namespace
