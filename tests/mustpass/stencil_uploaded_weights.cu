// task: stencil
// settings: all
// note: host code makes a small table and copies it to the device in every call
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <vector>

struct Tap {
  int row, column;
  float weight;
};

__global__ void Stencil(const float* x, const Tap* taps, int count, float* y, int rows,
                        int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * columns) return;
  float sum = 0;
  for (int t = 0; t < count; ++t) {
    const int r = i / columns + taps[t].row, c = i % columns + taps[t].column;
    if (r >= 0 && r < rows && c >= 0 && c < columns) sum += taps[t].weight * x[r * columns + c];
  }
  y[i] = sum;
}

torch::Tensor forward(torch::Tensor x) {
  std::vector<Tap> taps;
  for (int r = -1; r <= 1; ++r) {
    for (int c = -1; c <= 1; ++c) {
      if (r == 0 || c == 0) taps.push_back({r, c, 1.f / 5.f});
    }
  }
  const int64_t bytes = static_cast<int64_t>(taps.size() * sizeof(Tap));
  auto table = torch::empty({bytes}, x.options().dtype(torch::kUInt8));
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_CUDA_CHECK(
      cudaMemcpyAsync(table.data_ptr(), taps.data(), bytes, cudaMemcpyHostToDevice, stream));
  auto y = torch::empty_like(x);
  const int n = x.numel();
  Stencil<<<(n + 127) / 128, 128, 0, stream>>>(
      x.data_ptr<float>(), static_cast<const Tap*>(table.data_ptr()), (int)taps.size(),
      y.data_ptr<float>(), (int)x.size(0), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
