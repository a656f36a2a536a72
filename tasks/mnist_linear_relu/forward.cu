// Linear layer with ReLU: the baseline. A group of kLanes threads computes kRows outputs of one
// column; the defaults are the plain form, one thread for each output. The tunables below leave the
// result correct for every shape. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kLanes = 1;      // tune: kLanes in 1, 2, 4, 8, 16, 32
constexpr int kRows = 1;       // tune: kRows in 1, 2, 4, 8
constexpr int kVector = 1;     // tune: kVector in 1, 4
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4

// Loads kWidth neighbouring floats; the address is aligned to all of them.
template <int kWidth>
__device__ void Load(float (&to)[kWidth], const float* from) {
  if constexpr (kWidth == 4) {
    const float4 v = *reinterpret_cast<const float4*>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  } else {
    to[0] = *from;
  }
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    LinearRelu(const float* __restrict__ x, const float* __restrict__ weights,
               const float* __restrict__ biases, float* __restrict__ y, int batch, int in,
               int out) {
  const int64_t group = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  const int column = static_cast<int>(group % out);
  const int64_t first_row = group / out * kRows;

  float sums[kRows] = {};
  if (first_row < batch) {
    const float* w = weights + static_cast<int64_t>(column) * in;
#pragma unroll kUnroll
    for (int k = lane * kWidth; k < in; k += kLanes * kWidth) {
      float weight[kWidth];
      Load<kWidth>(weight, w + k);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (first_row + r < batch) {
          float value[kWidth];
          Load<kWidth>(value, x + (first_row + r) * in + k);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) sums[r] += value[i] * weight[i];
        }
      }
    }
  }
  // All threads of a warp come here, those without work too.
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], distance);
    }
    if (lane == 0 && first_row + r < batch) {
      y[(first_row + r) * out + column] = fmaxf(sums[r] + biases[column], 0.0f);
    }
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many columns");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each row of weights");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int batch = static_cast<int>(x.size(0));
  const int in = static_cast<int>(x.size(1));
  const int out = static_cast<int>(weights.size(0));
  auto y = torch::empty({batch, out}, x.options());
  if (y.numel() == 0) return y;

  const int64_t groups = static_cast<int64_t>((batch + kRows - 1) / kRows) * out;
  const int64_t blocks = (groups * kLanes + kThreads - 1) / kThreads;
  const float* x_data = x.data_ptr<float>();
  const float* w_data = weights.data_ptr<float>();
  const bool aligned = reinterpret_cast<uintptr_t>(x_data) % (kVector * sizeof(float)) == 0 &&
                       reinterpret_cast<uintptr_t>(w_data) % (kVector * sizeof(float)) == 0;
  const auto kernel = aligned && in % kVector == 0 ? LinearRelu<kVector> : LinearRelu<1>;
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x_data, w_data, biases.data_ptr<float>(), y.data_ptr<float>(), batch, in, out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer with ReLU"); }
