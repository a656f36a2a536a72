// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

struct Shape {
  virtual __device__ float Area(float side) const { return side * side; }
};
struct Circle : Shape {
  __device__ float Area(float side) const override { return 3.14159f * side * side; }
};
struct Pair {
  char tag;
  double value;
};
using Unary = float (*)(float);

__device__ float Twice(float x) { return 2 * x; }
__device__ float Square(float x) { return x * x; }
__device__ Unary table[2] = {Twice, Square};

__device__ __noinline__ float Apply(float x, Pair pair) { return x * float(pair.value) + pair.tag; }
__device__ __noinline__ int Factorial(int n) { return n < 2 ? 1 : n * Factorial(n - 1); }
__device__ inline float Inner(float x) { return __expf(x) + 1; }
__device__ inline float Outer(float x) { return Inner(x) * Inner(x + 2); }

extern "C" __global__ void __launch_bounds__(128, 2) Calls(float* out, int n, Pair pair, char c) {
  Shape square;
  Circle circle;
  const Shape* shape = n > 5 ? &square : &circle;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = Apply(Outer(out[i]), pair) + table[n & 1](out[i + 1]) + shape->Area(out[i + 2]) + c;
  if (n == 3) printf("%d %f\n", Factorial(n), out[i]);
}
