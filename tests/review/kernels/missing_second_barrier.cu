// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

template <int kTile>
__global__ void Linear(const float* __restrict__ x, const float* __restrict__ w,
                       const float* __restrict__ b, float* __restrict__ y, int rows, int columns,
                       int depth) {
  __shared__ float xs[kTile][kTile + 1];
  __shared__ float ws[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  const int weight_row = blockIdx.x * kTile + threadIdx.y;
  float sum = 0;
  for (int begin = 0; begin < depth; begin += kTile) {
    const int k = begin + threadIdx.x;
    xs[threadIdx.y][threadIdx.x] = row < rows && k < depth ? x[row * depth + k] : 0.f;
    ws[threadIdx.y][threadIdx.x] =
        weight_row < columns && k < depth ? w[weight_row * depth + k] : 0.f;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kTile; ++j) sum = fmaf(xs[threadIdx.y][j], ws[threadIdx.x][j], sum);
  }
  if (row < rows && column < columns) y[row * columns + column] = sum + b[column];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && w.is_contiguous());
  constexpr int kTile = 16;
  const int rows = x.size(0), depth = x.size(1), columns = w.size(0);
  auto y = torch::empty({rows, columns}, x.options());
  const dim3 grid((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
  Linear<kTile><<<grid, dim3(kTile, kTile), 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows,
      columns, depth);
  AT_CUDA_CHECK(cudaGetLastError());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "tiled linear layer", py::arg("x"), py::arg("w"), py::arg("b"));
}
