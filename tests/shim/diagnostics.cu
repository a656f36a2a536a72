// Operators that the shim does not declare by itself. Each `want` is the only diagnostic of its line. Arithmetic on
// tensors is declared.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>
using T = torch::Tensor;
T f1(T a, T b) { return at::conv2d(a, b); }              // want: namespace "at" has no member "conv2d"
T f2(T a, T b) { return torch::mm(a, b); }               // want: namespace "torch" has no member "mm"
T f3(T a) { return a.mean(); }                           // want: class "at::Tensor" has no member "mean"
T f4(T a, T b) { return a + b; }
T f5(T a) { return a / 2.0f; }
T f6(T a) { return 1 - a; }
void f7(T a, T b) { a *= b; }
T f8(T a) { return torch::nn::functional::relu(a); }     // want: namespace "torch::nn::functional" has no member "relu"
T f9(T a) { return at::native::softmax(a); }             // want: namespace "at::native" has no member "softmax"
T f10(T a) { return -a; }
bool f11(T a, T b) { return (a == b).defined(); }
void f12(T a) { std::cout << a; }                        // want: function "at::operator<<
struct F13 : torch::autograd::Function<F13> {};          // want: namespace "torch::autograd" has no member
T f14(T a) { return a.index({0}); }
