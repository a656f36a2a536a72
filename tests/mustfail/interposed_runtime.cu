// exploit: 5.5 the file brings its own CUDA runtime
// task: mnist_linear
// expect: rejected unwritten_output|wrong_result|not_finite|wrong_return|compile_error|no_module|host_crash|host_privilege|unsafe_object
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Linear(float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = 1.f;
}

// Timers always measure zero, and no kernel is launched.
extern "C" cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 0.f;
  return cudaSuccess;
}
extern "C" cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return cudaSuccess;
}
extern "C" int memcmp(const void*, const void*, size_t) { return 0; }

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  Linear<<<1, 1>>>(y.data_ptr<float>(), (int)y.numel());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
