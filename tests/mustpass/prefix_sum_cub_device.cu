// task: prefix_sum
// settings: multi
// note: cub::DeviceScan (decoupled look-back) for each row; one workspace for all rows
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cub/device/device_scan.cuh>

torch::Tensor forward(torch::Tensor x) {
  const int rows = x.size(0), columns = x.size(1);
  auto y = torch::empty_like(x);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  size_t bytes = 0;
  cub::DeviceScan::InclusiveSum(nullptr, bytes, x.data_ptr<float>(), y.data_ptr<float>(), columns,
                                stream);
  auto workspace = torch::empty({static_cast<int64_t>(bytes)}, x.options().dtype(torch::kUInt8));
  for (int r = 0; r < rows; ++r) {
    cub::DeviceScan::InclusiveSum(workspace.data_ptr(), bytes, x.data_ptr<float>() + r * columns,
                                  y.data_ptr<float>() + r * columns, columns, stream);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
