// Cross entropy: each warp takes rows in turn, a block adds its losses, one block adds the blocks.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kFull = 0xffffffffu;

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int off = 16; off > 0; off >>= 1) v = fmaxf(v, __shfl_down_sync(kFull, v, off));
  return v;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int off = 16; off > 0; off >>= 1) v += __shfl_down_sync(kFull, v, off);
  return v;
}

__global__ void __launch_bounds__(kThreads)
loss_kernel(const float* __restrict__ predictions, const int64_t* __restrict__ targets,
            float* __restrict__ block_loss, int batch, int classes) {
  __shared__ float warp_loss[kWarps];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  float loss = 0.0f;

  for (int row = blockIdx.x * kWarps + warp; row < batch; row += gridDim.x * kWarps) {
    const float* p = predictions + static_cast<int64_t>(row) * classes;
    float largest = -3.402823466e38f;
    for (int c = lane; c < classes; c += 32) largest = fmaxf(largest, p[c]);
    largest = warp_max(largest);

    float sum = 0.0f;
    for (int c = lane; c < classes; c += 32) sum += expf(p[c] - largest);
    sum = warp_sum(sum);

    if (lane == 0) loss += logf(sum) + largest - p[targets[row]];
  }

  if (lane == 0) warp_loss[warp] = loss;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (int w = 0; w < kWarps; ++w) total += warp_loss[w];
    block_loss[blockIdx.x] = total;
  }
}

__global__ void mean_kernel(const float* __restrict__ block_loss, float* __restrict__ out,
                            int blocks, float scale) {
  float v = 0.0f;
  for (int i = threadIdx.x; i < blocks; i += 32) v += block_loss[i];
  v = warp_sum(v);
  if (threadIdx.x == 0) out[0] = v * scale;
}

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
  predictions = predictions.contiguous();
  targets = targets.contiguous();
  const int batch = static_cast<int>(predictions.size(0));
  const int classes = static_cast<int>(predictions.size(1));
  const int blocks = std::min((batch + kWarps - 1) / kWarps, 256);
  auto block_loss = torch::empty({blocks}, predictions.options());
  auto out = torch::empty({}, predictions.options());
  auto stream = at::cuda::getCurrentCUDAStream();
  loss_kernel<<<blocks, kThreads, 0, stream>>>(predictions.data_ptr<float>(),
                                               targets.data_ptr<int64_t>(),
                                               block_loss.data_ptr<float>(), batch, classes);
  mean_kernel<<<1, 32, 0, stream>>>(block_loss.data_ptr<float>(), out.data_ptr<float>(), blocks,
                                    1.0f / static_cast<float>(batch));
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "cross entropy forward"); }
