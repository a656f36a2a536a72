// Mean cross entropy loss: the baseline. One thread for each row writes its loss; one block adds
// them up in a fixed order. The result has no dimensions, as PyTorch's. SPDX-License-Identifier:
// Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 128;     // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kSumThreads = 256;  // tune: kSumThreads in 64, 128, 256, 512, 1024

__global__ void __launch_bounds__(kThreads)
    RowLosses(const float* __restrict__ predictions, const int64_t* __restrict__ targets,
              float* __restrict__ losses, int batch, int classes) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= batch) return;
  const float* p = predictions + row * classes;
  float largest = p[0];
  for (int c = 1; c < classes; ++c) largest = fmaxf(largest, p[c]);
  float sum = 0;
  for (int c = 0; c < classes; ++c) sum += expf(p[c] - largest);
  losses[row] = logf(sum) - (p[targets[row]] - largest);
}

__global__ void __launch_bounds__(kSumThreads)
    Mean(const float* __restrict__ losses, float* __restrict__ mean, int batch) {
  __shared__ float partial[kSumThreads];
  float sum = 0;
  for (int i = threadIdx.x; i < batch; i += kSumThreads) sum += losses[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int distance = kSumThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) partial[threadIdx.x] += partial[threadIdx.x + distance];
    __syncthreads();
  }
  if (threadIdx.x == 0) *mean = partial[0] / static_cast<float>(batch);
}

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
  TORCH_CHECK(
      predictions.dim() == 2 && targets.dim() == 1 && predictions.size(0) == targets.size(0),
      "predictions must be a matrix with a row for each target");
  TORCH_CHECK(predictions.scalar_type() == torch::kFloat32, "predictions must be float32");
  TORCH_CHECK(predictions.size(0) > 0 && predictions.size(1) > 0,
              "an empty batch has no mean loss");
  predictions = predictions.contiguous();
  targets = targets.contiguous();
  const int batch = static_cast<int>(predictions.size(0));
  const int classes = static_cast<int>(predictions.size(1));
  auto losses = torch::empty({batch}, predictions.options());
  auto mean = torch::empty({}, predictions.options());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  RowLosses<<<(batch + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
      predictions.data_ptr<float>(), targets.data_ptr<int64_t>(), losses.data_ptr<float>(), batch,
      classes);
  Mean<<<1, kSumThreads, 0, stream>>>(losses.data_ptr<float>(), mean.data_ptr<float>(), batch);
  return mean;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Mean cross entropy loss"); }
