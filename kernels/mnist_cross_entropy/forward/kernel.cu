// Mean cross entropy loss.
//
// A row's numbers are loaded once, into the registers of kLanes neighbouring threads, kChunks
// vectors of kWidth floats each, so that all loads of the batch are in flight at the same time: one
// trip to memory is most of what this costs. The loss of a row is
//
//     log(sum(exp(p - largest))) + largest - p[target],
//
// of which every lane holds a part: the one that has the target's number subtracts it, the first
// adds the rest. So nothing is gathered by a second, dependent load, and one sum over the block's
// threads makes both the rows' losses and their total. A batch that fits into one block is done in
// one launch; else each block writes its part, and a second kernel adds these in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>

constexpr int kThreads = 128;   // tune: kThreads in 128, 256, 512
constexpr int kOneBlock = 512;  // a batch of no more threads than these is done by one block
constexpr int kSumThreads = 1024;

template <int kWidth>
struct Vector;
template <>
struct Vector<1> {
  using Type = float;
};
template <>
struct Vector<2> {
  using Type = float2;
};
template <>
struct Vector<4> {
  using Type = float4;
};

// The sum over the block, for its first thread.
__device__ float BlockSum(float value) {
  __shared__ float of_warp[32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  if (blockDim.x == 32) return value;
  const unsigned warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  if (warps == 2) return of_warp[0] + of_warp[1];
  if (threadIdx.x >= 32) return 0;
  value = threadIdx.x < warps ? of_warp[threadIdx.x] : 0;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

constexpr float kLog2E = 1.44269504f;
constexpr float kLn2 = 0.693147181f;

// Rows of at most kLanes * kChunks * kWidth classes, a multiple of kWidth; of just as many if
// kExact.
template <int kLanes, int kChunks, int kWidth, bool kExact = false>
__global__ void RowLosses(const float* __restrict__ predictions,
                          const int64_t* __restrict__ targets, float* __restrict__ parts, int batch,
                          int classes, float scale) {
  using Chunk = typename Vector<kWidth>::Type;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  float loss = 0;
  if (kLanes > 1 || row < batch) {
    const bool works = kLanes == 1 || row < batch;
    const int end = works ? classes - lane * kWidth : 0;
    const Chunk* chunks = reinterpret_cast<const Chunk*>(
        predictions + (static_cast<int64_t>(works ? row : 0) * classes + lane * kWidth));
    float p[kChunks][kWidth];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (kExact || i * kLanes * kWidth < end) {
        *reinterpret_cast<Chunk*>(p[i]) = chunks[i * kLanes];
      } else {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) p[i][j] = -INFINITY;
      }
    }
    const int place = works ? static_cast<int>(targets[row]) - lane * kWidth : -1;

    float largest = p[0][0];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) largest = fmaxf(largest, p[i][j]);
    }
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum += exp2f((p[i][j] - largest) * kLog2E);
    }
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (works && lane == 0) loss = log2f(sum) * kLn2;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        if (place == i * kLanes * kWidth + j) loss += largest - p[i][j];
      }
    }
  }
  loss = BlockSum(loss);
  if (threadIdx.x == 0) parts[blockIdx.x] = loss * scale;
}

// Rows of any length: a warp each, which reads its row twice.
__global__ void LongRowLosses(const float* __restrict__ predictions,
                              const int64_t* __restrict__ targets, float* __restrict__ parts,
                              int batch, int classes, float scale) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const bool works = row < batch;
  const float* p = predictions + (works ? row : 0) * classes;
  float largest = -INFINITY;
#pragma unroll 4
  for (int c = lane; c < classes; c += 32) largest = fmaxf(largest, p[c]);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
  }
  float sum = 0;
#pragma unroll 4
  for (int c = lane; c < classes; c += 32) sum += __expf(p[c] - largest);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  const float loss = works && lane == 0 ? __logf(sum) + (largest - p[targets[row]]) : 0;
  const float total = BlockSum(loss);
  if (threadIdx.x == 0) parts[blockIdx.x] = total * scale;
}

__global__ void Sum(const float* __restrict__ parts, float* __restrict__ total, int count) {
  float sum = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
  sum = BlockSum(sum);
  if (threadIdx.x == 0) *total = sum;
}

struct Call {
  const float* predictions;
  const int64_t* targets;
  int batch, classes;
  torch::Tensor mean;
  cudaStream_t stream;

  using Kernel = void(const float*, const int64_t*, float*, int, int, float);

  void Run(Kernel* kernel, int lanes) const {
    const float scale = 1.0f / static_cast<float>(batch);
    float* result = mean.data_ptr<float>();
    const int64_t work = static_cast<int64_t>(batch) * lanes;
    if (work <= kOneBlock) {
      const int threads = (static_cast<int>(work) + 31) / 32 * 32;
      kernel<<<1, threads, 0, stream>>>(predictions, targets, result, batch, classes, scale);
      return;
    }
    const int blocks = static_cast<int>((work + kThreads - 1) / kThreads);
    auto parts = torch::empty({blocks}, mean.options());
    float* of_block = parts.data_ptr<float>();
    kernel<<<blocks, kThreads, 0, stream>>>(predictions, targets, of_block, batch, classes, scale);
    const int threads = blocks <= 128 ? 32 : kSumThreads;
    Sum<<<1, threads, 0, stream>>>(of_block, result, blocks);
  }

  // The shortest rows are a thread's own: no shuffles. Others are shared by 8 threads.
  template <int kWidth>
  void RunByLength() const {
    const int chunks = classes / kWidth;
    if (chunks == 5) return Run(RowLosses<1, 5, kWidth, true>, 1);
    if (chunks < 5) return Run(RowLosses<1, 5, kWidth>, 1);
    if (chunks <= 8) return Run(RowLosses<8, 1, kWidth>, 8);
    if (chunks <= 32) return Run(RowLosses<8, 4, kWidth>, 8);
    if (chunks <= 128) return Run(RowLosses<32, 4, kWidth>, 32);
    return Run(LongRowLosses, 32);
  }
};

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
  TORCH_CHECK(
      predictions.dim() == 2 && targets.dim() == 1 && predictions.size(0) == targets.size(0),
      "predictions must be a matrix with a row for each target");
  TORCH_CHECK(predictions.scalar_type() == torch::kFloat32, "predictions must be float32");
  TORCH_CHECK(predictions.size(0) > 0 && predictions.size(1) > 0,
              "an empty batch has no mean loss");
  predictions = predictions.contiguous();
  targets = targets.contiguous();
  Call call{predictions.data_ptr<float>(),           targets.data_ptr<int64_t>(),
            static_cast<int>(predictions.size(0)),   static_cast<int>(predictions.size(1)),
            torch::empty({}, predictions.options()), at::cuda::getCurrentCUDAStream()};
  const auto address = reinterpret_cast<uintptr_t>(call.predictions);
  if (call.classes % 4 == 0 && address % 16 == 0) {
    call.RunByLength<4>();
  } else if (call.classes % 2 == 0 && address % 8 == 0) {
    call.RunByLength<2>();
  } else {
    call.RunByLength<1>();
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return call.mean;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Mean cross entropy loss"); }
