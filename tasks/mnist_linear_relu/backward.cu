// Gradients of a linear layer with ReLU: the baseline. The incoming gradient is masked where ReLU
// stopped the sum; then one thread computes each element of each gradient as for a linear layer.
// The sign of a sum decides here, so the mask's sums are made in double: near zero a float would
// open or close an output as its rounding has it. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

__device__ int64_t Element() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

// masked[b, o] = grad_output[b, o] where ReLU let y[b, o] pass, else 0.
__global__ void __launch_bounds__(kThreads)
    Mask(const float* __restrict__ grad_output, const float* __restrict__ x,
         const float* __restrict__ weights, const float* __restrict__ biases,
         float* __restrict__ masked, int batch, int in, int out) {
  const int64_t element = Element();
  if (element >= static_cast<int64_t>(batch) * out) return;
  const int64_t b = element / out;
  const int64_t o = element % out;
  double sum = biases[o];
#pragma unroll kUnroll
  for (int i = 0; i < in; ++i) {
    sum += static_cast<double>(x[b * in + i]) * static_cast<double>(weights[o * in + i]);
  }
  masked[element] = sum <= 0 ? 0.0f : grad_output[element];  // a NaN passes, as in PyTorch
}

// grad_x[b, i] = sum over o of masked[b, o] * weights[o, i].
__global__ void __launch_bounds__(kThreads)
    GradX(const float* __restrict__ masked, const float* __restrict__ weights,
          float* __restrict__ grad_x, int batch, int in, int out) {
  const int64_t element = Element();
  if (element >= static_cast<int64_t>(batch) * in) return;
  const int64_t b = element / in;
  const int64_t i = element % in;
  float sum = 0;
#pragma unroll kUnroll
  for (int64_t o = 0; o < out; ++o) sum += masked[b * out + o] * weights[o * in + i];
  grad_x[element] = sum;
}

// grad_weights[o, i] = sum over b of masked[b, o] * x[b, i].
__global__ void __launch_bounds__(kThreads)
    GradWeights(const float* __restrict__ masked, const float* __restrict__ x,
                float* __restrict__ grad_weights, int batch, int in, int out) {
  const int64_t element = Element();
  if (element >= static_cast<int64_t>(out) * in) return;
  const int64_t o = element / in;
  const int64_t i = element % in;
  float sum = 0;
#pragma unroll kUnroll
  for (int64_t b = 0; b < batch; ++b) sum += masked[b * out + o] * x[b * in + i];
  grad_weights[element] = sum;
}

// grad_biases[o] = sum over b of masked[b, o].
__global__ void __launch_bounds__(kThreads)
    GradBiases(const float* __restrict__ masked, float* __restrict__ grad_biases, int batch,
               int out) {
  const int64_t o = Element();
  if (o >= out) return;
  float sum = 0;
#pragma unroll kUnroll
  for (int64_t b = 0; b < batch; ++b) sum += masked[b * out + o];
  grad_biases[o] = sum;
}

static unsigned Blocks(int64_t elements) {
  return static_cast<unsigned>((elements + kThreads - 1) / kThreads);
}

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                    torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(grad_output.dim() == 2 && x.dim() == 2 && weights.dim() == 2,
              "grad_output, x and weights must be matrices");
  TORCH_CHECK(grad_output.size(0) == x.size(0) && grad_output.size(1) == weights.size(0) &&
                  x.size(1) == weights.size(1) && biases.numel() == weights.size(0),
              "the shapes of grad_output, x, weights and biases do not fit together");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.numel() > 0 && weights.numel() > 0, "nothing to do for empty tensors");
  grad_output = grad_output.contiguous();
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int batch = static_cast<int>(x.size(0));
  const int in = static_cast<int>(x.size(1));
  const int out = static_cast<int>(weights.size(0));
  auto masked = torch::empty_like(grad_output);
  auto grad_x = torch::empty_like(x);
  auto grad_weights = torch::empty_like(weights);
  auto grad_biases = torch::empty_like(biases);

  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const float* x_data = x.data_ptr<float>();
  const float* w_data = weights.data_ptr<float>();
  float* m = masked.data_ptr<float>();
  Mask<<<Blocks(masked.numel()), kThreads, 0, stream>>>(
      grad_output.data_ptr<float>(), x_data, w_data, biases.data_ptr<float>(), m, batch, in, out);
  GradX<<<Blocks(grad_x.numel()), kThreads, 0, stream>>>(m, w_data, grad_x.data_ptr<float>(), batch,
                                                         in, out);
  GradWeights<<<Blocks(grad_weights.numel()), kThreads, 0, stream>>>(
      m, x_data, grad_weights.data_ptr<float>(), batch, in, out);
  GradBiases<<<Blocks(out), kThreads, 0, stream>>>(m, grad_biases.data_ptr<float>(), batch, out);
  return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of a linear layer with ReLU");
}
