// task: mnist_linear
// settings: single
// note: reads what the launch before it does not write, and waits; one thread waits for its block
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__global__ void Multiply(const float* x, const float* w, float* y, int batch, int in, int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * out) return;
  float sum = 0;
  for (int k = 0; k < in; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  y[i] = sum;
}

__global__ void AddBias(float* y, const float* b, int batch, int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float bias = i < batch * out ? b[i % out] : 0;
  if (threadIdx.x == 0) cudaGridDependencySynchronize();
  __syncthreads();
  if (i < batch * out) y[i] += bias;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  auto y = torch::empty({batch, out}, x.options());
  const auto stream = at::cuda::getCurrentCUDAStream();
  const dim3 grid((batch * out + 127) / 128), block(128);
  Multiply<<<grid, block, 0, stream>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                       y.data_ptr<float>(), batch, in, out);
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  const float* bias = b.data_ptr<float>();
  cudaLaunchKernelEx(&config, AddBias, y.data_ptr<float>(), bias, batch, out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
