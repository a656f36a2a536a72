// Mean cross entropy: a warp per row, per-block partial losses, then one block adds them up.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

constexpr int WARPS_PER_BLOCK = 8;

__global__ void ce_rows(const float* __restrict__ logits, const int64_t* __restrict__ targets,
                        float* __restrict__ partial, int batch, int classes) {
  __shared__ float losses[WARPS_PER_BLOCK];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int row = blockIdx.x * WARPS_PER_BLOCK + warp;

  float loss = 0.0f;
  if (row < batch) {
    const float* p = logits + static_cast<int64_t>(row) * classes;
    float m = -INFINITY;
    for (int c = lane; c < classes; c += 32) m = fmaxf(m, p[c]);
    for (int off = 16; off > 0; off >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, off));
    float s = 0.0f;
    for (int c = lane; c < classes; c += 32) s += expf(p[c] - m);
    for (int off = 16; off > 0; off >>= 1) s += __shfl_xor_sync(0xffffffff, s, off);
    loss = logf(s) - (p[targets[row]] - m);
  }
  if (lane == 0) losses[warp] = loss;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS_PER_BLOCK; ++w) total += losses[w];
    partial[blockIdx.x] = total;
  }
}

__global__ void ce_finish(const float* __restrict__ partial, float* __restrict__ out, int count,
                          int batch) {
  float s = 0.0f;
  for (int i = threadIdx.x; i < count; i += 32) s += partial[i];
  for (int off = 16; off > 0; off >>= 1) s += __shfl_down_sync(0xffffffff, s, off);
  if (threadIdx.x == 0) *out = s / batch;
}

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
  predictions = predictions.contiguous();
  targets = targets.contiguous();
  const int batch = predictions.size(0);
  const int classes = predictions.size(1);
  const int blocks = (batch + WARPS_PER_BLOCK - 1) / WARPS_PER_BLOCK;
  auto partial = torch::empty({blocks}, predictions.options());
  auto out = torch::empty({}, predictions.options());
  auto stream = at::cuda::getCurrentCUDAStream();
  ce_rows<<<blocks, WARPS_PER_BLOCK * 32, 0, stream>>>(predictions.data_ptr<float>(),
                                                       targets.data_ptr<int64_t>(),
                                                       partial.data_ptr<float>(), batch, classes);
  ce_finish<<<1, 32, 0, stream>>>(partial.data_ptr<float>(), out.data_ptr<float>(), blocks, batch);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "cross entropy"); }
