// task: mnist_linear
// direction: backward
// settings: single
// note: three kernels, one per gradient
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <vector>

__global__ void GradX(const float* g, const float* w, float* gx, int batch, int in, int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * in) return;
  float sum = 0;
  for (int o = 0; o < out; ++o) sum += g[i / in * out + o] * w[o * in + i % in];
  gx[i] = sum;
}
__global__ void GradW(const float* g, const float* x, float* gw, int batch, int in, int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= out * in) return;
  float sum = 0;
  for (int r = 0; r < batch; ++r) sum += g[r * out + i / in] * x[r * in + i % in];
  gw[i] = sum;
}
__global__ void GradB(const float* g, float* gb, int batch, int out) {
  const int o = blockIdx.x * blockDim.x + threadIdx.x;
  if (o >= out) return;
  float sum = 0;
  for (int r = 0; r < batch; ++r) sum += g[r * out + o];
  gb[o] = sum;
}

std::vector<torch::Tensor> backward(torch::Tensor g, torch::Tensor x, torch::Tensor w) {
  g = g.contiguous();
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  auto gx = torch::empty_like(x);
  auto gw = torch::empty_like(w);
  auto gb = torch::empty({out}, x.options());
  GradX<<<(batch * in + 127) / 128, 128>>>(g.data_ptr<float>(), w.data_ptr<float>(),
                                           gx.data_ptr<float>(), batch, in, out);
  GradW<<<(out * in + 127) / 128, 128>>>(g.data_ptr<float>(), x.data_ptr<float>(),
                                         gw.data_ptr<float>(), batch, in, out);
  GradB<<<(out + 31) / 32, 32>>>(g.data_ptr<float>(), gb.data_ptr<float>(), batch, out);
  return {gx, gw, gb};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
