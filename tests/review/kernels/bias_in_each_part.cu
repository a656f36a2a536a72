// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

constexpr int kSplits = 4;

__global__ void Partial(const float* x, const float* w, const float* b, float* y, int outputs,
                        int in, int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= outputs) return;
  const int chunk = (in + kSplits - 1) / kSplits;
  const int begin = blockIdx.y * chunk, end = min(begin + chunk, in);
  float sum = b[i % out];
  for (int k = begin; k < end; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  atomicAdd(y + i, sum);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int out = w.size(0), outputs = x.size(0) * out;
  auto y = torch::zeros({x.size(0), out}, x.options());
  Partial<<<dim3((outputs + 127) / 128, kSplits), 128>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                                         b.data_ptr<float>(), y.data_ptr<float>(),
                                                         outputs, (int)x.size(1), out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
