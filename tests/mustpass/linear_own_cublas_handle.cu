// task: mnist_linear
// settings: single
// note: creates its own cuBLAS handle once; writes the bias first, and beta = 1 keeps it
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>
#include <torch/extension.h>

cublasHandle_t Handle() {
  static cublasHandle_t handle = [] {
    cublasHandle_t made;
    cublasCreate(&made);
    return made;
  }();
  return handle;
}

__global__ void Spread(const float* b, float* y, int n, int out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    y[i] = b[i % out];
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  auto y = x.new_empty({batch, out});
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  Spread<<<2, 128, 0, stream>>>(b.data_ptr<float>(), y.data_ptr<float>(), batch * out, out);
  const float one = 1.f;
  cublasSetStream(Handle(), stream);
  cublasSgemm(Handle(), CUBLAS_OP_T, CUBLAS_OP_N, out, batch, in, &one, w.data_ptr<float>(), in,
              x.data_ptr<float>(), in, &one, y.data_ptr<float>(), out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
