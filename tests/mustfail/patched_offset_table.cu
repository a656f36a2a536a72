// exploit: 5.5 replaces an entry of the global offset table
// task: mnist_linear
// expect: rejected host_privilege|host_crash|unwritten_output|wrong_result|not_finite|impure|wrong_return|unsafe_object
// SPDX-License-Identifier: Apache-2.0
#include <link.h>
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
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void*) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_GNU_RELRO) continue;
          auto* table = reinterpret_cast<void**>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
          for (size_t e = 0; e < info->dlpi_phdr[i].p_memsz / sizeof(void*); ++e) {
            table[e] = nullptr;
          }
        }
        return 0;
      },
      nullptr);
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  Launch(x, w, b, y);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
