// Operators that a candidate must not use. Each `want` is the only diagnostic of its line.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>
using T = torch::Tensor;
T f1(T a, T b) { return at::conv2d(a, b); }              // want: namespace "at" has no member "conv2d"
T f2(T a, T b) { return torch::mm(a, b); }               // want: namespace "torch" has no member "mm"
T f3(T a) { return a.mean(); }                           // want: class "at::Tensor" has no member "mean"
T f4(T a, T b) { return a + b; }                         // want: function "at::operator+(const at::Tensor &, const at::Tensor &)"
T f5(T a) { return a / 2.0f; }                           // want: function "at::operator/(const at::Tensor &, const c10::Scalar &)"
T f6(T a) { return 1 - a; }                              // want: function "at::operator-(const c10::Scalar &, const at::Tensor &)"
void f7(T a, T b) { a *= b; }                            // want: function "at::Tensor::operator*=(const at::Tensor &)
T f8(T a) { return torch::nn::functional::relu(a); }     // want: namespace "torch::nn::functional" has no member "relu"
T f9(T a) { return at::native::softmax(a); }             // want: namespace "at::native" has no member "softmax"
T f10(T a) { return -a; }                                // want: function "at::operator-(const at::Tensor &)"
bool f11(T a, T b) { return (a == b).defined(); }        // want: function "at::operator==(const at::Tensor &, const at::Tensor &)"
void f12(T a) { std::cout << a; }                        // want: function "at::operator<<
struct F13 : torch::autograd::Function<F13> {};          // want: namespace "torch::autograd" has no member
T f14(T a) { return a.index({0}); }                      // want: class "at::Tensor" has no member "index"
