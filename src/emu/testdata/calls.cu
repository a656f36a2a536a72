// Kernels with calls that cannot be inlined, printf and assertions; calls.ptx is what nvcc makes of
// them:
//   nvcc -ptx -arch=sm_90 -O3 -lineinfo -std=c++17 calls.cu
// SPDX-License-Identifier: Apache-2.0
#include <cassert>
#include <cstdio>

namespace {

__device__ __noinline__ int Fibonacci(int n) {
  return n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2);
}

__device__ int IsOdd(int n);
__device__ __noinline__ int IsEven(int n) { return n == 0 ? 1 : IsOdd(n - 1); }
__device__ __noinline__ int IsOdd(int n) { return n == 0 ? 0 : IsEven(n - 1); }

/// Sums a range by halves; every level has an array of its own, whose address is passed on.
__device__ __noinline__ void SumHalves(const int* values, int n, int* sums, int parity) {
  if (n == 1) {
    sums[parity] += values[0];
    return;
  }
  int mine[4] = {0, 0, 0, 0};
  SumHalves(values, n / 2, mine + 1, parity);
  SumHalves(values + n / 2, n - n / 2, mine + 1, parity ^ 1);
  for (int i = 0; i < 4; ++i) sums[i % 2] += i == 0 || i == 3 ? mine[i] : mine[i] * 2;
}

__device__ float AddOne(float x) { return x + 1; }
__device__ float Double(float x) { return x * 2; }
__device__ float Square(float x) { return x * x; }
using Function = float (*)(float);
__device__ Function table[3] = {AddOne, Double, Square};

struct Shape {
  __device__ virtual float Area(float scale) const = 0;
};
struct Rectangle : Shape {
  float a, b;
  __device__ Rectangle(float a, float b) : a(a), b(b) {}
  __device__ float Area(float scale) const override { return a * b * scale; }
};
struct Disc : Shape {
  float r;
  __device__ explicit Disc(float r) : r(r) {}
  __device__ float Area(float scale) const override { return 3 * r * r * scale; }
};

}  // namespace

extern "C" {

__global__ void fibonacci(int* out) { out[threadIdx.x] = Fibonacci(threadIdx.x % 11); }

__global__ void even(int* out) {
  if (threadIdx.x % 3 != 0) out[threadIdx.x] = IsEven(threadIdx.x);
}

__global__ void sum_halves(const int* values, int* out) {
  int sums[2] = {0, 0};
  SumHalves(values, 1 + threadIdx.x % 9, sums, 0);
  out[threadIdx.x] = sums[0] * 1000 + sums[1];
}

__global__ void deep(int* out, int n) { out[0] = Fibonacci(n) + IsEven(100000); }

__global__ void through_table(const int* which, float* x) {
  x[threadIdx.x] = table[which[threadIdx.x]](x[threadIdx.x]) + 0.5f;
}

__global__ void through_virtual(const int* which, float* x) {
  Rectangle rectangle(2, x[threadIdx.x]);
  Disc disc(x[threadIdx.x]);
  const Shape* shape = which[threadIdx.x] ? static_cast<const Shape*>(&disc) : &rectangle;
  x[threadIdx.x] = shape->Area(0.5f);
}

__global__ void print(const int* values, const char* text) {
  if (threadIdx.x % 16 != 1) return;
  const int n = printf("thread %d of %u: %5.2f|%-6s|%+lld|%#x|%c|%%|%e|%*d\n", threadIdx.x,
                       blockDim.x, values[0] / 4.0, text, -5000000000ll, 255, 'c', 1e-3, 4, 7);
  printf("%d\n", n);
}

__global__ void asserts(const int* values) {
  assert(values[threadIdx.x] < 40);
  if (values[0] > 30) __trap();
}

}  // extern "C"
