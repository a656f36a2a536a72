// Max pooling over 2x2 windows, bound by memory. Where rows are multiples of four floats, an item
// is four neighbouring columns of a pair of rows: two loads of 16 bytes, one store of 8. Pairs of
// rows lie one after the other in all of x, so one division by the row's length places an item. The
// host gives each thread as many items as make the whole tensor one wave of blocks, and a thread
// asks for all of them before it uses any: the time is one trip to memory and the transfer. Any
// other shape and alignment takes one thread for each output. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kThreads = 256;  // tune: kThreads in 128, 256, 512
constexpr int kAnyThreads = 256;
constexpr int kResident = 2048;  // tune: kResident in 1024, 2048  (threads on an SM, in one wave)

// Division of n < 2^31 by a number that the host knows: one high product, one sum, one shift.
struct Divisor {
  uint32_t value, magic, shift;

  explicit Divisor(uint32_t d) : value(d), shift(0) {
    while ((uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  __device__ uint32_t Quotient(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

// The larger one, or a NaN if either is.
__device__ float Larger(float a, float b) { return a > b || isnan(a) ? a : b; }

template <int kItems>
__global__ void __launch_bounds__(kThreads)
    PoolItems(const float4* __restrict__ x, float2* __restrict__ y, uint32_t items,
              Divisor row_items) {
  const uint32_t first = blockIdx.x * (kThreads * kItems) + threadIdx.x;
  float4 upper[kItems], lower[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const uint32_t item = first + k * kThreads;
    if (item < items) {
      // Above this item lie as many lower rows as whole pairs come before it.
      const float4* at = x + (item + row_items.Quotient(item) * row_items.value);
      upper[k] = __ldcs(at);
      lower[k] = __ldcs(at + row_items.value);
    }
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const uint32_t item = first + k * kThreads;
    if (item < items) {
      y[item] = {Larger(Larger(upper[k].x, upper[k].y), Larger(lower[k].x, lower[k].y)),
                 Larger(Larger(upper[k].z, upper[k].w), Larger(lower[k].z, lower[k].w))};
    }
  }
}

__global__ void __launch_bounds__(kAnyThreads)
    PoolAny(const float* __restrict__ x, float* __restrict__ y, uint32_t outputs,
            Divisor out_height, Divisor out_width, int height, int width) {
  const uint32_t output = blockIdx.x * kAnyThreads + threadIdx.x;
  if (output >= outputs) return;
  const uint32_t line = out_width.Quotient(output);  // of all planes
  const uint32_t plane = out_height.Quotient(line);
  const uint32_t row = plane * height + (line - plane * out_height.value) * 2;
  const float* window =
      x + (static_cast<int64_t>(row) * width + (output - line * out_width.value) * 2);
  y[output] = Larger(Larger(window[0], window[1]), Larger(window[width], window[width + 1]));
}

static unsigned Blocks(int64_t items, int per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 4, "x must have four dimensions");
  TORCH_CHECK(x.size(2) >= 2 && x.size(3) >= 2, "x is too small for one window");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  const int height = static_cast<int>(x.size(2));
  const int width = static_cast<int>(x.size(3));
  auto y = torch::empty({x.size(0), x.size(1), height / 2, width / 2}, x.options());
  if (y.numel() == 0) return y;
  const float* source = x.data_ptr<float>();
  float* target = y.data_ptr<float>();
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const bool whole_items = width % 4 == 0 && height % 2 == 0 && x.numel() < int64_t{1} << 33 &&
                           reinterpret_cast<uintptr_t>(source) % sizeof(float4) == 0;
  if (!whole_items) {
    const int64_t plane = y.size(2) * y.size(3);
    TORCH_CHECK(plane < int64_t{1} << 31, "planes are too large");
    const int64_t planes = y.numel() / plane;
    const int64_t most = ((int64_t{1} << 31) - 1) / plane;  // of a launch, that counts in 32 bits
    for (int64_t first = 0; first < planes; first += most) {
      const auto outputs = static_cast<uint32_t>(std::min(most, planes - first) * plane);
      PoolAny<<<Blocks(outputs, kAnyThreads), kAnyThreads, 0, stream>>>(
          source + first * height * width, target + first * plane, outputs, Divisor(height / 2),
          Divisor(width / 2), height, width);
    }
    return y;
  }
  const int64_t items = y.numel() / 2;
  const int64_t wave =
      static_cast<int64_t>(at::cuda::getCurrentDeviceProperties()->multiProcessorCount) * kResident;
  const int per_thread = items <= wave ? 1 : items <= 2 * wave ? 2 : 4;
  const auto kernel = per_thread == 1   ? PoolItems<1>
                      : per_thread == 2 ? PoolItems<2>
                                        : PoolItems<4>;
  kernel<<<Blocks(items, kThreads * per_thread), kThreads, 0, stream>>>(
      reinterpret_cast<const float4*>(source), reinterpret_cast<float2*>(target),
      static_cast<uint32_t>(items), Divisor(width / 4));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Max pooling"); }
