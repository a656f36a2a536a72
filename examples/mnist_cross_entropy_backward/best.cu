// Gradient of the mean cross entropy loss. A warp takes one row and keeps it in registers:
// (softmax - one_hot(target)) * grad_output / batch.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kWarps = kThreads / 32;
constexpr unsigned kAll = 0xffffffffu;

// Maps the bits of floats to integers of the same order, and back.
__device__ __forceinline__ int Ordered(int bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }

__device__ __forceinline__ float WarpMax(float x) {
  return __int_as_float(Ordered(__reduce_max_sync(kAll, Ordered(__float_as_int(x)))));
}

// The sum over groups of kSpan neighbouring lanes.
template <int kSpan>
__device__ __forceinline__ float SpanSum(float x) {
#pragma unroll
  for (int distance = kSpan / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(kAll, x, distance);
  }
  return x;
}

// kHeld elements a lane are held in registers. With kSpan < 32 the whole row lies in the first kSpan
// lanes: the others only lend their part of the maximum. With kMore the row may be longer than
// what is held, and the rest is read again for each step.
template <int kSpan, int kHeld, bool kMore>
__global__ void __launch_bounds__(kThreads)
    GradPredictions(const float* __restrict__ grad_output, const float* __restrict__ predictions,
                    const int64_t* __restrict__ targets, float* __restrict__ grad, int batch,
                    int classes, float inverse_batch) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= batch) return;  // the whole warp
  const int lane = threadIdx.x % 32;
  const float* p = predictions + row * classes;
  const int last = classes - 1;

  // All loads first, none of them behind a branch.
  float held[kHeld];
#pragma unroll
  for (int h = 0; h < kHeld; ++h) held[h] = p[min(lane + h * 32, last)];
  const int target = static_cast<int>(targets[row]);
  const float factor = *grad_output * inverse_batch;

  // An element past the end repeats the last one, which leaves the maximum as it is.
  float largest = held[0];
#pragma unroll
  for (int h = 1; h < kHeld; ++h) largest = fmaxf(largest, held[h]);
  if constexpr (kMore) {
#pragma unroll 4
    for (int c = lane + kHeld * 32; c < classes; c += 32) largest = fmaxf(largest, p[c]);
  }
  largest = WarpMax(largest);

  float sum = 0.0f;
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const float exponential = __expf(held[h] - largest);
    held[h] = lane + h * 32 < classes ? exponential : 0.0f;
    sum += held[h];
  }
  if constexpr (kMore) {
#pragma unroll 4
    for (int c = lane + kHeld * 32; c < classes; c += 32) sum += __expf(p[c] - largest);
  }
  sum = SpanSum<kSpan>(sum);

  const float inverse = 1.0f / sum;
  float* g = grad + row * classes;
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const int c = lane + h * 32;
    if (c < classes) g[c] = (held[h] * inverse - (c == target ? 1.0f : 0.0f)) * factor;
  }
  if constexpr (kMore) {
#pragma unroll 4
    for (int c = lane + kHeld * 32; c < classes; c += 32) {
      const float softmax = __expf(p[c] - largest) * inverse;
      g[c] = (softmax - (c == target ? 1.0f : 0.0f)) * factor;
    }
  }
}

template <int kSpan, int kHeld, bool kMore>
static void Launch(const torch::Tensor& grad_output, const torch::Tensor& predictions,
                   const torch::Tensor& targets, torch::Tensor& grad, int batch, int classes) {
  const int64_t blocks = (static_cast<int64_t>(batch) + kWarps - 1) / kWarps;
  GradPredictions<kSpan, kHeld, kMore>
      <<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          grad_output.data_ptr<float>(), predictions.data_ptr<float>(),
          targets.data_ptr<int64_t>(), grad.data_ptr<float>(), batch, classes,
          1.0f / static_cast<float>(batch));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor backward(torch::Tensor grad_output, torch::Tensor predictions,
                       torch::Tensor targets) {
  TORCH_CHECK(grad_output.numel() == 1, "grad_output must hold one element");
  TORCH_CHECK(
      predictions.dim() == 2 && targets.dim() == 1 && predictions.size(0) == targets.size(0),
      "predictions must be a matrix with a row for each target");
  TORCH_CHECK(grad_output.scalar_type() == torch::kFloat32, "grad_output must be float32");
  TORCH_CHECK(predictions.scalar_type() == torch::kFloat32, "predictions must be float32");
  TORCH_CHECK(targets.scalar_type() == torch::kInt64, "targets must be int64");
  TORCH_CHECK(predictions.size(0) < (int64_t{1} << 30) && predictions.size(1) < (int64_t{1} << 30),
              "predictions are too large");
  predictions = predictions.contiguous();
  targets = targets.contiguous();
  const int batch = static_cast<int>(predictions.size(0));
  const int classes = static_cast<int>(predictions.size(1));
  auto grad = torch::empty_like(predictions);
  if (grad.numel() == 0) return grad;
  if (classes <= 8) {
    Launch<8, 1, false>(grad_output, predictions, targets, grad, batch, classes);
  } else if (classes <= 16) {
    Launch<16, 1, false>(grad_output, predictions, targets, grad, batch, classes);
  } else if (classes <= 32) {
    Launch<32, 1, false>(grad_output, predictions, targets, grad, batch, classes);
  } else if (classes <= 64) {
    Launch<32, 2, false>(grad_output, predictions, targets, grad, batch, classes);
  } else if (classes <= 128) {
    Launch<32, 4, false>(grad_output, predictions, targets, grad, batch, classes);
  } else if (classes <= 256) {
    Launch<32, 8, false>(grad_output, predictions, targets, grad, batch, classes);
  } else {
    Launch<32, 8, true>(grad_output, predictions, targets, grad, batch, classes);
  }
  return grad;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradient of the mean cross entropy loss");
}
