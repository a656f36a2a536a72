// d(mean cross entropy)/d(logits): warp per row, the upstream gradient read on the device.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

template <int kWarps>
__global__ void ce_backward_kernel(const float* __restrict__ grad_output,
                                   const float* __restrict__ logits,
                                   const int64_t* __restrict__ targets, float* __restrict__ grad,
                                   int batch, int classes) {
  const int lane = threadIdx.x & 31;
  const int row = blockIdx.x * kWarps + (threadIdx.x >> 5);
  if (row >= batch) return;  // a whole warp leaves

  const float* in = logits + static_cast<int64_t>(row) * classes;
  float* out = grad + static_cast<int64_t>(row) * classes;

  float row_max = -INFINITY;
  for (int c = lane; c < classes; c += 32) row_max = fmaxf(row_max, in[c]);
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) {
    row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, mask));
  }

  float row_sum = 0.0f;
  for (int c = lane; c < classes; c += 32) {
    const float e = expf(in[c] - row_max);
    out[c] = e;
    row_sum += e;
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) {
    row_sum += __shfl_xor_sync(0xffffffffu, row_sum, mask);
  }

  const float scale = grad_output[0] / static_cast<float>(batch);
  const int target = static_cast<int>(targets[row]);
  for (int c = lane; c < classes; c += 32) {
    const float p = out[c] / row_sum;
    out[c] = (c == target ? p - 1.0f : p) * scale;
  }
}

torch::Tensor backward(torch::Tensor grad_output, torch::Tensor predictions,
                       torch::Tensor targets) {
  predictions = predictions.contiguous();
  targets = targets.contiguous();
  grad_output = grad_output.contiguous();
  auto grad = torch::empty_like(predictions);
  const int batch = predictions.size(0);
  const int classes = predictions.size(1);
  constexpr int kWarps = 4;
  ce_backward_kernel<kWarps>
      <<<(batch + kWarps - 1) / kWarps, kWarps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
          grad_output.data_ptr<float>(), predictions.data_ptr<float>(),
          targets.data_ptr<int64_t>(), grad.data_ptr<float>(), batch, classes);
  return grad;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward, "cross entropy backward"); }
