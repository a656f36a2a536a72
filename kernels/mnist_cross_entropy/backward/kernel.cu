// Gradient of the mean cross entropy loss: (softmax - one_hot(target)) * grad_output / batch.
//
// A row's numbers are loaded once, into the registers of kLanes neighbouring threads, kChunks
// vectors of kWidth floats each; largest number, sum and gradient are made of these. One launch,
// one trip to memory, during which everything that will be needed is under way: numbers, target and
// grad_output, which is never read on the host.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>

constexpr int kThreads = 128;      // tune: kThreads in 64, 128, 256
constexpr int kThreadsOfFew = 32;  // tune: kThreadsOfFew in 32, 64
constexpr int kFew = 1024;         // as many threads are spread in blocks of kThreadsOfFew

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

// Rows of at most kLanes * kChunks * kWidth classes, a multiple of kWidth; of just as many if
// kExact.
template <int kLanes, int kChunks, int kWidth, bool kExact = false>
__global__ void Gradient(const float* __restrict__ grad_output,
                         const float* __restrict__ predictions, const int64_t* __restrict__ targets,
                         float* __restrict__ grad, int batch, int classes, float scale) {
  constexpr float kLog2E = 1.44269504f;
  using Chunk = typename Vector<kWidth>::Type;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  if (kLanes == 1 && row >= batch) return;
  const int lane = threadIdx.x % kLanes;
  const bool works = kLanes == 1 || row < batch;
  const int64_t first = static_cast<int64_t>(works ? row : 0) * classes + lane * kWidth;
  const Chunk* chunks = reinterpret_cast<const Chunk*>(predictions + first);
  const int end = works ? classes - lane * kWidth : 0;
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
  const int place = (works ? static_cast<int>(targets[row]) : 0) - lane * kWidth;
  const float factor = *grad_output * scale;

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
  // What rounding the offset does to all terms alike falls out of their ratio to the sum.
  const float offset = largest * kLog2E;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      p[i][j] = exp2f(fmaf(p[i][j], kLog2E, -offset));
      sum += p[i][j];
    }
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  const float normalise = __fdividef(factor, sum);
  Chunk* results = reinterpret_cast<Chunk*>(grad + first);
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      p[i][j] *= normalise;
      if (place == i * kLanes * kWidth + j) p[i][j] -= factor;
    }
    if (kExact || i * kLanes * kWidth < end) results[i * kLanes] = *reinterpret_cast<Chunk*>(p[i]);
  }
}

// Rows of any length: a warp each, which reads its row three times.
__global__ void LongRowGradient(const float* __restrict__ grad_output,
                                const float* __restrict__ predictions,
                                const int64_t* __restrict__ targets, float* __restrict__ grad,
                                int batch, int classes, float scale) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= batch) return;
  const int lane = threadIdx.x % 32;
  const float* p = predictions + row * classes;
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
  const float factor = *grad_output * scale;
  const float normalise = __fdividef(1.0f, sum);
  const int target = static_cast<int>(targets[row]);
#pragma unroll 4
  for (int c = lane; c < classes; c += 32) {
    const float one_hot = c == target ? 1.0f : 0.0f;
    grad[row * classes + c] = (__expf(p[c] - largest) * normalise - one_hot) * factor;
  }
}

struct Call {
  const float* grad_output;
  const float* predictions;
  const int64_t* targets;
  float* grad;
  int batch, classes;
  cudaStream_t stream;

  using Kernel = void(const float*, const float*, const int64_t*, float*, int, int, float);

  void Run(Kernel* kernel, int lanes) const {
    const int64_t work = static_cast<int64_t>(batch) * lanes;
    const int threads = work <= kFew ? kThreadsOfFew : kThreads;
    const auto blocks = static_cast<unsigned>((work + threads - 1) / threads);
    kernel<<<blocks, threads, 0, stream>>>(grad_output, predictions, targets, grad, batch, classes,
                                           1.0f / static_cast<float>(batch));
  }

  // The shortest rows are a thread's own: no shuffles. Others are shared by 8 threads.
  template <int kWidth>
  void RunByLength() const {
    const int chunks = classes / kWidth;
    if (chunks == 5) return Run(Gradient<1, 5, kWidth, true>, 1);
    if (chunks < 5) return Run(Gradient<1, 5, kWidth>, 1);
    if (chunks <= 8) return Run(Gradient<8, 1, kWidth>, 8);
    if (chunks <= 32) return Run(Gradient<8, 4, kWidth>, 8);
    if (chunks <= 128) return Run(Gradient<32, 4, kWidth>, 32);
    return Run(LongRowGradient, 32);
  }
};

torch::Tensor backward(torch::Tensor grad_output, torch::Tensor predictions,
                       torch::Tensor targets) {
  TORCH_CHECK(grad_output.numel() == 1, "grad_output must hold one element");
  TORCH_CHECK(
      predictions.dim() == 2 && targets.dim() == 1 && predictions.size(0) == targets.size(0),
      "predictions must be a matrix with a row for each target");
  TORCH_CHECK(predictions.scalar_type() == torch::kFloat32, "predictions must be float32");
  predictions = predictions.contiguous();
  targets = targets.contiguous();
  auto grad = torch::empty_like(predictions);
  if (grad.numel() == 0) return grad;
  Call call{grad_output.data_ptr<float>(),         predictions.data_ptr<float>(),
            targets.data_ptr<int64_t>(),           grad.data_ptr<float>(),
            static_cast<int>(predictions.size(0)), static_cast<int>(predictions.size(1)),
            at::cuda::getCurrentCUDAStream()};
  const auto address =
      reinterpret_cast<uintptr_t>(call.predictions) | reinterpret_cast<uintptr_t>(call.grad);
  if (call.classes % 4 == 0 && address % 16 == 0) {
    call.RunByLength<4>();
  } else if (call.classes % 2 == 0 && address % 8 == 0) {
    call.RunByLength<2>();
  } else {
    call.RunByLength<1>();
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return grad;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradient of the mean cross entropy loss");
}
