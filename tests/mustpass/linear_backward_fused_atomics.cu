// task: mnist_linear
// direction: backward
// settings: single
// note: one kernel adds into all three gradients atomically
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <tuple>

__global__ void Gradients(const float* g, const float* x, const float* w, float* gx, float* gw,
                          float* gb, int in, int out) {
  const int row = blockIdx.x, o = blockIdx.y;
  const float d = g[row * out + o];
  for (int k = threadIdx.x; k < in; k += blockDim.x) {
    atomicAdd(gx + row * in + k, d * w[o * in + k]);
    atomicAdd(gw + o * in + k, d * x[row * in + k]);
  }
  if (threadIdx.x == 0) atomicAdd(gb + o, d);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(at::Tensor g, at::Tensor x, at::Tensor w) {
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  auto gx = at::zeros_like(x), gw = at::zeros_like(w), gb = at::zeros({out}, x.options());
  Gradients<<<dim3(batch, out), 128>>>(g.contiguous().data_ptr<float>(), x.data_ptr<float>(),
                                       w.data_ptr<float>(), gx.data_ptr<float>(),
                                       gw.data_ptr<float>(), gb.data_ptr<float>(), in, out);
  return std::make_tuple(gx, gw, gb);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
