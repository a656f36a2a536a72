// Gradient of the mean cross entropy loss: the baseline. A group of kLanes threads takes one row:
// (softmax - one_hot(target)) * grad_output / batch. grad_output is read on the GPU, never on the
// host. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cfloat>
#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kLanes = 1;      // tune: kLanes in 1, 2, 4, 8, 16, 32

__global__ void __launch_bounds__(kThreads)
    GradPredictions(const float* __restrict__ grad_output, const float* __restrict__ predictions,
                    const int64_t* __restrict__ targets, float* __restrict__ grad, int batch,
                    int classes) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  const bool works = row < batch;
  const float* p = predictions + (works ? row * classes : 0);

  // All threads of a warp take part in the shuffles, those without work too.
  float largest = -FLT_MAX;
  for (int c = lane; works && c < classes; c += kLanes) largest = fmaxf(largest, p[c]);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
  }
  float sum = 0;
  for (int c = lane; works && c < classes; c += kLanes) sum += expf(p[c] - largest);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  if (!works) return;
  const float factor = *grad_output / static_cast<float>(batch);
  const int64_t target = targets[row];
  for (int c = lane; c < classes; c += kLanes) {
    const float softmax = expf(p[c] - largest) / sum;
    grad[row * classes + c] = (softmax - (c == target ? 1.0f : 0.0f)) * factor;
  }
}

torch::Tensor backward(torch::Tensor grad_output, torch::Tensor predictions,
                       torch::Tensor targets) {
  TORCH_CHECK(grad_output.numel() == 1, "grad_output must hold one element");
  TORCH_CHECK(
      predictions.dim() == 2 && targets.dim() == 1 && predictions.size(0) == targets.size(0),
      "predictions must be a matrix with a row for each target");
  TORCH_CHECK(predictions.scalar_type() == torch::kFloat32, "predictions must be float32");
  predictions = predictions.contiguous();
  targets = targets.contiguous();
  const int batch = static_cast<int>(predictions.size(0));
  const int classes = static_cast<int>(predictions.size(1));
  auto grad = torch::empty_like(predictions);
  if (grad.numel() == 0) return grad;
  const int64_t blocks = (static_cast<int64_t>(batch) * kLanes + kThreads - 1) / kThreads;
  GradPredictions<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      grad_output.data_ptr<float>(), predictions.data_ptr<float>(), targets.data_ptr<int64_t>(),
      grad.data_ptr<float>(), batch, classes);
  return grad;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradient of the mean cross entropy loss");
}
