// Gradient of an embedding: the baseline. A block has one row of the gradient and kThreads * kItems
// of its columns. It goes through all tokens in their order, so that the sums are always the same.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kItems = 4;      // tune: kItems in 1, 2, 4, 8

template <typename T>
__global__ void __launch_bounds__(kThreads)
    GradWeights(const T* __restrict__ grad_output, const int64_t* __restrict__ indices,
                T* __restrict__ grad_weights, int64_t tokens, int features) {
  __shared__ bool is_here[kThreads];
  const int64_t row = blockIdx.x;
  const int column = static_cast<int>(blockIdx.y) * kThreads * kItems + threadIdx.x;
  float sums[kItems] = {};
  for (int64_t first = 0; first < tokens; first += kThreads) {
    const int64_t mine = first + threadIdx.x;
    const bool here = mine < tokens && indices[mine] == row;
    is_here[threadIdx.x] = here;
    if (__syncthreads_or(here)) {
      for (int i = 0; i < kThreads; ++i) {
        if (!is_here[i]) continue;
#pragma unroll
        for (int item = 0; item < kItems; ++item) {
          const int c = column + item * kThreads;
          if (c < features) {
            sums[item] += static_cast<float>(grad_output[(first + i) * features + c]);
          }
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int c = column + item * kThreads;
    if (c < features) grad_weights[row * features + c] = static_cast<T>(sums[item]);
  }
}

template <typename T>
static void Launch(const torch::Tensor& grad_output, const torch::Tensor& indices,
                   torch::Tensor& grad_weights) {
  const int features = static_cast<int>(grad_weights.size(1));
  const dim3 grid(static_cast<unsigned>(grad_weights.size(0)),
                  static_cast<unsigned>((features - 1) / (kThreads * kItems) + 1));
  GradWeights<T><<<grid, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      grad_output.data_ptr<T>(), indices.data_ptr<int64_t>(), grad_weights.data_ptr<T>(),
      indices.numel(), features);
}

torch::Tensor backward(torch::Tensor grad_output, torch::Tensor indices, int64_t num_embeddings) {
  TORCH_CHECK(grad_output.dim() == indices.dim() + 1 &&
                  grad_output.sizes().slice(0, indices.dim()) == indices.sizes(),
              "grad_output must have a row for each index");
  TORCH_CHECK(indices.scalar_type() == torch::kInt64, "indices must be int64");
  grad_output = grad_output.contiguous();
  indices = indices.contiguous();
  const int64_t features = grad_output.size(grad_output.dim() - 1);
  auto grad_weights = torch::empty({num_embeddings, features}, grad_output.options());
  if (grad_weights.numel() == 0) return grad_weights;
  switch (grad_output.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(grad_output, indices, grad_weights);
      break;
    case torch::kFloat16:
      Launch<at::Half>(grad_output, indices, grad_weights);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(grad_output, indices, grad_weights);
      break;
    default:
      TORCH_CHECK(false, "grad_output must be float32, float16 or bfloat16");
  }
  return grad_weights;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradient of an embedding");
}
