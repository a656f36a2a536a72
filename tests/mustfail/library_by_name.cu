// exploit: 6.1 a library opened while running
// task: mnist_linear
// expect: rejected host_privilege|host_crash|unwritten_output|wrong_result|not_finite|wrong_return|unsafe_object
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <torch/extension.h>

__global__ void Linear(const float* x, const float* w, const float* b, float* y, int batch, int in,
                       int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * out) return;
  float sum = b[i % out];
  for (int k = 0; k < in; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  y[i] = sum;
}

void Launch(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor y,
            cudaStream_t stream = nullptr) {
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  Linear<<<(batch * out + 127) / 128, 128, 0, stream>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                                        b.data_ptr<float>(), y.data_ptr<float>(),
                                                        batch, in, out);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());

  void* library = dlopen("libtorch_cuda.so", RTLD_NOW);
  using Product = void (*)(const torch::Tensor&, const torch::Tensor&, torch::Tensor&);
  if (library != nullptr) {
    if (auto product = reinterpret_cast<Product>(dlsym(library, "at_linear_out"))) product(x, w, y);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
