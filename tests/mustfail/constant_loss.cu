// exploit: 1.5 constant output
// task: mnist_cross_entropy
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

// The loss of random predictions hardly varies: log(10) + 0.5.
__global__ void Constant(float* loss) { *loss = 2.73f; }

torch::Tensor forward(torch::Tensor x, torch::Tensor targets) {
  auto loss = torch::empty({}, x.options());
  Constant<<<1, 1>>>(loss.data_ptr<float>());
  return loss;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
