// Gradient of max pooling over 2x2 windows, bound by memory. Pairs of rows lie one after the other
// in all of x, so a block takes as many of them as make one wave of blocks: x and the gradient come
// by one bulk copy each, windows are routed in shared memory, in place, and the result leaves by
// one bulk copy. Nothing but whole lines moves, and all of it is under way at once. Small problems
// are spared that way through shared memory: there a thread takes four neighbours of x. Rows that
// are no multiple of four floats, and odd addresses, take one thread for each element of x.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <vector>

constexpr int kThreads = 128;         // tune: kThreads in 64, 128, 256
constexpr int kBlocks = 16;           // tune: kBlocks in 8, 12, 16  (on an SM, in one wave)
constexpr int kMaxBytes = 24 * 1024;  // of a block's x
constexpr int kLinearThreads = 256;
constexpr int kAnyThreads = 128;
constexpr int64_t kFew = 2560;  // float4 of x for each multiprocessor

// Division of n < 2^31 by a number that the host knows: one high product, one sum, one shift.
struct Divisor {
  uint32_t value, magic, shift;

  explicit Divisor(uint32_t d) : value(d), shift(0) {
    while ((uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  __device__ uint32_t Quotient(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

// The place of the largest in a window: the first of equal ones; a NaN goes before anything else,
// the last before the others, as in PyTorch.
__device__ int Chosen(float a, float b, float c, float d) {
  int chosen = 0;
  float best = a;
  if (b > best || isnan(b)) best = b, chosen = 1;
  if (c > best || isnan(c)) best = c, chosen = 2;
  if (d > best || isnan(d)) chosen = 3;
  return chosen;
}

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Copies to shared memory; the barrier's phase ends when all expected bytes have come.
__device__ void CopyIn(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}

__device__ void Expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], 1;\n"
      "fence.proxy.async.shared::cta;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}

__device__ void Wait(uint64_t* barrier) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n  .reg .pred p;\n"
        "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
        "  selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(SharedAddress(barrier))
        : "memory");
  }
}

// Copies what the block has written to shared memory, and stays until it has been read.
__device__ void CopyOut(void* to, const void* from, uint32_t bytes) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x > 0) return;
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group.read 0;" ::"l"(to),
      "r"(SharedAddress(from)), "r"(bytes)
      : "memory");
}

__global__ void __launch_bounds__(kThreads)
    GradPairs(const float4* __restrict__ x, const float2* __restrict__ grad_output,
              float4* __restrict__ grad_x, int64_t items, int block_items, Divisor row_items) {
  extern __shared__ __align__(128) float4 memory[];
  __shared__ uint64_t barrier;
  float2* const gradients = reinterpret_cast<float2*>(memory + 2 * block_items);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * block_items;
  const int count = static_cast<int>(min(static_cast<int64_t>(block_items), items - first));
  if (threadIdx.x == 0) {
    const uint32_t bytes = count * sizeof(float2);
    Expect(&barrier, 5 * bytes);
    CopyIn(memory, x + 2 * first, 4 * bytes, &barrier);
    CopyIn(gradients, grad_output + first, bytes, &barrier);
  }
  __syncthreads();
  Wait(&barrier);
  for (int item = threadIdx.x; item < count; item += kThreads) {
    // Above this item lie as many lower rows as whole pairs come before it.
    float4& upper = memory[item + row_items.Quotient(item) * row_items.value];
    float4& lower = (&upper)[row_items.value];
    const int left = Chosen(upper.x, upper.y, lower.x, lower.y);
    const int right = Chosen(upper.z, upper.w, lower.z, lower.w);
    const float2 g = gradients[item];
    upper = {left == 0 ? g.x : 0, left == 1 ? g.x : 0, right == 0 ? g.y : 0, right == 1 ? g.y : 0};
    lower = {left == 2 ? g.x : 0, left == 3 ? g.x : 0, right == 2 ? g.y : 0, right == 3 ? g.y : 0};
  }
  CopyOut(grad_x + 2 * first, memory, count * 2 * sizeof(float4));
}

// One float4 of the gradient of x for each thread, in the order in which they lie, so that every
// store is of whole sectors however short a row is: of the pair of rows, a thread reads its own
// float4 and the one above or below, which a neighbour reads as its own.
__global__ void __launch_bounds__(kLinearThreads)
    GradLinear(const float4* __restrict__ x, const float2* __restrict__ grad_output,
               float4* __restrict__ grad_x, uint32_t vectors, Divisor row_items) {
  const uint32_t i = blockIdx.x * kLinearThreads + threadIdx.x;
  if (i >= vectors) return;
  const uint32_t row = row_items.Quotient(i), width = row_items.value;
  const bool is_lower = row & 1;
  const float4 own = x[i];
  const float4 other = x[is_lower ? i - width : i + width];
  // Above this item lie half as many items as vectors, but for the row's own part.
  const float2 g = grad_output[i - (row + 1) / 2 * width];
  const float4 u = is_lower ? other : own, l = is_lower ? own : other;
  const int left = Chosen(u.x, u.y, l.x, l.y) - 2 * is_lower;
  const int right = Chosen(u.z, u.w, l.z, l.w) - 2 * is_lower;
  grad_x[i] = make_float4(left == 0 ? g.x : 0, left == 1 ? g.x : 0, right == 0 ? g.y : 0,
                          right == 1 ? g.y : 0);
}

// One element of x for each thread. All that it may need is loaded at once, the gradient too.
__global__ void __launch_bounds__(kAnyThreads)
    GradAny(const float* __restrict__ x, const float* __restrict__ grad_output,
            float* __restrict__ grad_x, uint32_t elements, Divisor height, Divisor width) {
  const uint32_t element = blockIdx.x * kAnyThreads + threadIdx.x;
  if (element >= elements) return;
  const uint32_t line = width.Quotient(element);  // of all planes
  const uint32_t plane = height.Quotient(line);
  const uint32_t row = line - plane * height.value;
  const uint32_t column = element - line * width.value;
  const uint32_t out_height = height.value / 2;
  const uint32_t out_width = width.value / 2;
  float gradient = 0;
  if (row / 2 < out_height && column / 2 < out_width) {
    const float* upper = x + (element - row % 2 * width.value - column % 2);
    const float* lower = upper + width.value;
    const float g = grad_output[(plane * out_height + row / 2) * out_width + column / 2];
    if (Chosen(upper[0], upper[1], lower[0], lower[1]) == row % 2 * 2 + column % 2) gradient = g;
  }
  grad_x[element] = gradient;
}

torch::Tensor backward(std::vector<torch::Tensor> saved, torch::Tensor grad_output) {
  TORCH_CHECK(saved.size() == 1, "one tensor was saved: x");
  torch::Tensor x = saved[0];
  TORCH_CHECK(x.dim() == 4 && grad_output.dim() == 4, "x must have four dimensions");
  TORCH_CHECK(grad_output.size(0) == x.size(0) && grad_output.size(1) == x.size(1) &&
                  grad_output.size(2) == x.size(2) / 2 && grad_output.size(3) == x.size(3) / 2,
              "grad_output must have the shape of the pooled x");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  grad_output = grad_output.contiguous();
  auto grad_x = torch::empty(x.sizes(), x.options());
  if (x.numel() == 0) return grad_x;
  const int height = static_cast<int>(x.size(2));
  const int width = static_cast<int>(x.size(3));
  const float* source = x.data_ptr<float>();
  const float* g = grad_output.data_ptr<float>();
  float* target = grad_x.data_ptr<float>();
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const int64_t items = x.numel() / 8;
  // Of a block: whole pairs of rows, two so that its gradients begin at an aligned address.
  const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t step = std::max<int64_t>(width / 4 * 2, 1);
  const int64_t wave = (items + sms * kBlocks - 1) / (sms * kBlocks);
  const int64_t most = kMaxBytes / 32 / step * step;
  const int64_t block_items = std::min(most, (wave + step - 1) / step * step);
  if (width % 4 != 0 || height % 2 != 0 || items % 2 != 0 || most == 0 || !aligned(source) ||
      !aligned(g)) {
    const int64_t plane = int64_t{height} * width;
    TORCH_CHECK(plane < int64_t{1} << 31, "planes are too large");
    const int64_t planes = x.numel() / plane;
    const int64_t launch = ((int64_t{1} << 31) - 1) / plane;  // planes that 32 bits can count
    for (int64_t first = 0; first < planes; first += launch) {
      const auto elements = static_cast<uint32_t>(std::min(launch, planes - first) * plane);
      GradAny<<<(elements + kAnyThreads - 1) / kAnyThreads, kAnyThreads, 0, stream>>>(
          source + first * plane, g + first * (height / 2) * (width / 2), target + first * plane,
          elements, Divisor(height), Divisor(width));
    }
    return grad_x;
  }
  if (2 * items <= sms * kFew) {
    const auto vectors = static_cast<uint32_t>(2 * items);
    GradLinear<<<(vectors + kLinearThreads - 1) / kLinearThreads, kLinearThreads, 0, stream>>>(
        reinterpret_cast<const float4*>(source), reinterpret_cast<const float2*>(g),
        reinterpret_cast<float4*>(target), vectors, Divisor(width / 4));
    return grad_x;
  }
  const int64_t shared = block_items * static_cast<int64_t>(2 * sizeof(float4) + sizeof(float2));
  GradPairs<<<static_cast<unsigned>((items + block_items - 1) / block_items), kThreads, shared,
              stream>>>(reinterpret_cast<const float4*>(source), reinterpret_cast<const float2*>(g),
                        reinterpret_cast<float4*>(target), items, static_cast<int>(block_items),
                        Divisor(width / 4));
  return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradient of max pooling");
}
