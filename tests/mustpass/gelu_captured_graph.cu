// task: gelu
// settings: single
// note: every call captures launches into a graph, launches it and destroys it
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Inner(const float* x, float* t, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) t[i] = 0.7978845608028654f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
}
__global__ void Outer(const float* x, const float* t, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * (1.f - 1.f / (__expf(2.f * t[i]) + 1.f));
}

torch::Tensor forward(torch::Tensor x) {
  const int n = x.numel();
  auto t = torch::empty_like(x);
  auto y = torch::empty_like(x);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  Inner<<<(n + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), t.data_ptr<float>(), n);
  Outer<<<(n + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), t.data_ptr<float>(),
                                             y.data_ptr<float>(), n);
  cudaGraph_t graph;
  cudaStreamEndCapture(stream, &graph);
  cudaGraphExec_t ready;
  cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphLaunch(ready, stream);
  cudaStreamSynchronize(stream);
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
