// torch::nn::functional: the functions that host code of extensions calls, over PyTorch's
// operators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/operators.h"

namespace torch {

using namespace at;  // NOLINT: as in PyTorch

// The names of modes and reductions, as PyTorch's Python functions have them.
namespace enumtype {
struct Name {
  const char* text;
};
}  // namespace enumtype
inline constexpr enumtype::Name kConstant{"constant"}, kReflect{"reflect"}, kReplicate{"replicate"},
    kCircular{"circular"}, kNone{"none"}, kMean{"mean"}, kSum{"sum"}, kTanh{"tanh"};

namespace nn::functional {

// One option of an options class: a setter that can be chained.
#define CUPEL_OPTION(Class, T, name, ...) \
  Class& name(T value) {                  \
    name##_ = std::move(value);           \
    return *this;                         \
  }                                       \
  T name##_ = __VA_ARGS__;

using Sizes = std::vector<int64_t>;

struct PadFuncOptions {
  PadFuncOptions(Sizes pad) : pad_(std::move(pad)) {}
  CUPEL_OPTION(PadFuncOptions, enumtype::Name, mode, kConstant)
  CUPEL_OPTION(PadFuncOptions, double, value, 0)
  Sizes pad_;
};
inline Tensor pad(const Tensor& input, const PadFuncOptions& o) {
  const bool is_constant = std::strcmp(o.mode_.text, "constant") == 0;
  return cupel::shim::CallOperator<Tensor>("aten::pad", input, IntArrayRef(o.pad_),
                                           std::string_view(o.mode_.text),
                                           is_constant ? optional<double>(o.value_) : nullopt);
}

#define CUPEL_UNARY(name)                                            \
  inline Tensor name(const Tensor& input) {                          \
    return cupel::shim::CallOperator<Tensor>("aten::" #name, input); \
  }
CUPEL_UNARY(relu)
CUPEL_UNARY(silu)
CUPEL_UNARY(mish)
CUPEL_UNARY(selu)
#undef CUPEL_UNARY

struct GELUFuncOptions {
  CUPEL_OPTION(GELUFuncOptions, const char*, approximate, "none")
};
inline Tensor gelu(const Tensor& input, const GELUFuncOptions& o = {}) {
  return cupel::shim::CallOperator<Tensor>("aten::gelu", input, std::string_view(o.approximate_));
}
struct LeakyReLUFuncOptions {
  CUPEL_OPTION(LeakyReLUFuncOptions, double, negative_slope, 0.01)
};
inline Tensor leaky_relu(const Tensor& input, const LeakyReLUFuncOptions& o = {}) {
  return cupel::shim::CallOperator<Tensor>("aten::leaky_relu", input, Scalar(o.negative_slope_));
}

#define CUPEL_SOFTMAX(name, Options)                                                          \
  struct Options {                                                                            \
    Options(int64_t dim) : dim_(dim) {}                                                       \
    CUPEL_OPTION(Options, optional<ScalarType>, dtype, nullopt)                               \
    int64_t dim_;                                                                             \
  };                                                                                          \
  inline Tensor name(const Tensor& input, const Options& o) {                                 \
    return cupel::shim::CallOperator<Tensor>("aten::" #name ".int", input, o.dim_, o.dtype_); \
  }
CUPEL_SOFTMAX(softmax, SoftmaxFuncOptions)
CUPEL_SOFTMAX(log_softmax, LogSoftmaxFuncOptions)
#undef CUPEL_SOFTMAX

inline Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {}) {
  return cupel::shim::CallOperator<Tensor>("aten::linear", input, weight, bias);
}

#define CUPEL_CONVOLUTION(name, Options)                                                      \
  struct Options {                                                                            \
    CUPEL_OPTION(Options, Tensor, bias, {})                                                   \
    CUPEL_OPTION(Options, Sizes, stride, {1})                                                 \
    CUPEL_OPTION(Options, Sizes, padding, {0})                                                \
    CUPEL_OPTION(Options, Sizes, dilation, {1})                                               \
    CUPEL_OPTION(Options, int64_t, groups, 1)                                                 \
    Options& stride(int64_t value) { return stride(Sizes{value}); }                           \
    Options& padding(int64_t value) { return padding(Sizes{value}); }                         \
    Options& dilation(int64_t value) { return dilation(Sizes{value}); }                       \
  };                                                                                          \
  inline Tensor name(const Tensor& input, const Tensor& weight, const Options& o = {}) {      \
    return cupel::shim::CallOperator<Tensor>("aten::" #name, input, weight, o.bias_,          \
                                             IntArrayRef(o.stride_), IntArrayRef(o.padding_), \
                                             IntArrayRef(o.dilation_), o.groups_);            \
  }
CUPEL_CONVOLUTION(conv1d, Conv1dFuncOptions)
CUPEL_CONVOLUTION(conv2d, Conv2dFuncOptions)
CUPEL_CONVOLUTION(conv3d, Conv3dFuncOptions)
#undef CUPEL_CONVOLUTION

struct LayerNormFuncOptions {
  LayerNormFuncOptions(Sizes shape) : shape_(std::move(shape)) {}
  CUPEL_OPTION(LayerNormFuncOptions, Tensor, weight, {})
  CUPEL_OPTION(LayerNormFuncOptions, Tensor, bias, {})
  CUPEL_OPTION(LayerNormFuncOptions, double, eps, 1e-5)
  Sizes shape_;
};
inline Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& o) {
  return cupel::shim::CallOperator<Tensor>("aten::layer_norm", input, IntArrayRef(o.shape_),
                                           o.weight_, o.bias_, o.eps_, true);
}

#undef CUPEL_OPTION

}  // namespace nn::functional
}  // namespace torch
