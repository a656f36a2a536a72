// exploit: 7.8 a constructor runs while the object is loaded
// task: mnist_linear
// expect: rejected host_privilege|unsafe_object
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <torch/extension.h>
#include <unistd.h>

static int secret = [] {
  int value = 0;
  const int file = open("/etc/passwd", O_RDWR);
  if (file >= 0) (void)!read(file, &value, sizeof value);
  return value;
}();

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::full({x.size(0), w.size(0)}, secret, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
