// Gradients of RMS normalisation over the last dimension: the baseline. With s = 1 / sqrt(mean(x^2)
// + eps) and d = grad_output * w:
//   grad_x = s * d - x * s^3 * mean(d * x),  grad_w = sum over rows of grad_output * x * s.
// One block for each row; the rows' sums for grad_w in two steps, first over kRows rows each.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512, 1024
constexpr int kRows = 32;      // tune: kRows in 16, 32, 64, 128
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

// The sum over the block's threads, known to all of them.
__device__ float BlockSum(float value) {
  __shared__ float partial[kThreads];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) partial[threadIdx.x] += partial[threadIdx.x + distance];
    __syncthreads();
  }
  const float sum = partial[0];
  __syncthreads();  // the next sum writes there
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    GradX(const float* __restrict__ grad_output, const float* __restrict__ x,
          const float* __restrict__ w, float* __restrict__ grad_x, float* __restrict__ scales,
          int features, float eps) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * features;
  float squares = 0, along = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < features; i += kThreads) {
    const float value = x[start + i];
    squares += value * value;
    along += grad_output[start + i] * w[i] * value;
  }
  const float length = static_cast<float>(features);
  const float scale = rsqrtf(BlockSum(squares) / length + eps);
  // Multiplied in this order scale^3 cannot overflow while the result is finite.
  const float pull = BlockSum(along) / length * scale * scale;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < features; i += kThreads) {
    grad_x[start + i] = scale * (grad_output[start + i] * w[i] - x[start + i] * pull);
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

// partial[g, i] = sum over the rows of group g of grad_output * x * s.
__global__ void __launch_bounds__(kThreads)
    GroupSums(const float* __restrict__ grad_output, const float* __restrict__ x,
              const float* __restrict__ scales, float* __restrict__ partial, int64_t rows,
              int features, int64_t groups) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= groups * features) return;
  const int64_t first = element / features * kRows;
  const int64_t i = element % features;
  const int64_t end = min(first + kRows, rows);
  float sum = 0;
#pragma unroll kUnroll
  for (int64_t r = first; r < end; ++r) {
    sum += grad_output[r * features + i] * (x[r * features + i] * scales[r]);
  }
  partial[element] = sum;
}

__global__ void __launch_bounds__(kThreads)
    GradW(const float* __restrict__ partial, float* __restrict__ grad_w, int features,
          int64_t groups) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= features) return;
  float sum = 0;
#pragma unroll kUnroll
  for (int64_t g = 0; g < groups; ++g) sum += partial[g * features + i];
  grad_w[i] = sum;
}

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor w,
                                    double eps) {
  TORCH_CHECK(x.dim() >= 1 && w.dim() == 1 && x.size(x.dim() - 1) == w.size(0),
              "w must be as long as the last dimension of x");
  TORCH_CHECK(grad_output.sizes() == x.sizes(), "grad_output must have the shape of x");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.numel() > 0, "nothing to do for empty tensors");
  grad_output = grad_output.contiguous();
  x = x.contiguous();
  w = w.contiguous();
  const int features = static_cast<int>(w.size(0));
  const int64_t rows = x.numel() / features;
  const int64_t groups = (rows + kRows - 1) / kRows;
  auto scales = torch::empty({rows}, x.options());
  auto partial = torch::empty({groups, features}, x.options());
  auto grad_x = torch::empty_like(x);
  auto grad_w = torch::empty_like(w);

  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const float* g = grad_output.data_ptr<float>();
  const float* x_data = x.data_ptr<float>();
  GradX<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      g, x_data, w.data_ptr<float>(), grad_x.data_ptr<float>(), scales.data_ptr<float>(), features,
      static_cast<float>(eps));
  const int64_t blocks = (groups * features + kThreads - 1) / kThreads;
  GroupSums<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      g, x_data, scales.data_ptr<float>(), partial.data_ptr<float>(), rows, features, groups);
  GradW<<<static_cast<unsigned>((features + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      partial.data_ptr<float>(), grad_w.data_ptr<float>(), features, groups);
  return {grad_x, grad_w};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of RMS normalisation");
}
