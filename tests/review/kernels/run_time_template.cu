// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
//
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

template <int kIn>  // 0: unknown at compile time
__global__ void Linear(const float* __restrict__ x, const float* __restrict__ w,
                       const float* __restrict__ b, float* __restrict__ y, int outputs, int in,
                       int out) {
  const int depth = kIn > 0 ? kIn : in;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= outputs) return;
  float sum = b[i % out];
#pragma unroll 8
  for (int k = 0; k < depth; ++k) sum += x[i / out * depth + k] * w[i % out * depth + k];
  y[i] = sum;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int in = x.size(1), out = w.size(0), outputs = x.size(0) * out;
  auto y = torch::empty({x.size(0), out}, x.options());
  auto* kernel = &Linear<in % 32 == 0 ? in : 0>;
  switch (in) {
    case 128:
      kernel = &Linear<128>;
      break;
    case 256:
      kernel = &Linear<256>;
      break;
    case 4096:
      kernel = &Linear<4096>;
      break;
  }
  kernel<<<(outputs + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                         b.data_ptr<float>(), y.data_ptr<float>(), outputs, in,
                                         out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
