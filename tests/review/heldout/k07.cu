// Gradient of 2x2 max pooling: a thread per window writes the window's four elements.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <vector>

__global__ void max_pool_backward_kernel(const float* __restrict__ x,
                                         const float* __restrict__ grad_output,
                                         float* __restrict__ grad_x, int64_t windows, int height,
                                         int width, int out_height, int out_width) {
  const int64_t idx = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (idx >= windows) return;
  const int ow = static_cast<int>(idx % out_width);
  const int oh = static_cast<int>((idx / out_width) % out_height);
  const int64_t plane = idx / (static_cast<int64_t>(out_width) * out_height);

  const int64_t first = (plane * height + 2 * oh) * width + 2 * ow;
  const int64_t offsets[4] = {first, first + 1, first + width, first + width + 1};

  int best = 0;
  float best_value = x[offsets[0]];
#pragma unroll
  for (int k = 1; k < 4; ++k) {
    const float v = x[offsets[k]];
    if (v > best_value || isnan(v)) {
      best_value = v;
      best = k;
    }
  }
  const float g = grad_output[idx];
#pragma unroll
  for (int k = 0; k < 4; ++k) grad_x[offsets[k]] = k == best ? g : 0.0f;
}

torch::Tensor backward(std::vector<torch::Tensor> saved_tensors, torch::Tensor grad_output) {
  auto x = saved_tensors[0].contiguous();
  grad_output = grad_output.contiguous();
  const int height = x.size(2);
  const int width = x.size(3);
  const int out_height = height / 2;
  const int out_width = width / 2;
  auto grad_x = torch::empty_like(x);
  const int64_t windows = grad_output.numel();
  if (windows == 0) return grad_x.zero_();
  const int threads = 256;
  const unsigned blocks = static_cast<unsigned>((windows + threads - 1) / threads);
  max_pool_backward_kernel<<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), grad_output.data_ptr<float>(), grad_x.data_ptr<float>(), windows,
      height, width, out_height, out_width);
  return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward, "max pool backward"); }
