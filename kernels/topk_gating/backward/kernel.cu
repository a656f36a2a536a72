// Gradient of top-k gating. A lane has one or two selected experts. Rows of logits are copied to
// shared memory while the indices are loaded; the results are scattered into cleared rows there.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>

constexpr int kWarps = 4;            // tune: kWarps in 1, 2, 4
constexpr int kStageBytes = 2048;    // tune: kStageBytes in 512, 1024, 2048, 4096
constexpr int kPer = 2;              // tune: kPer in 1, 2
constexpr int kGeneralWarps = 8;     // tune: kGeneralWarps in 2, 4, 8, 16
constexpr int kGeneralBytes = 1024;  // tune: kGeneralBytes in 512, 1024, 2048

// How many tokens a warp takes: as many as it has lanes for, and as fit into its stage.
template <typename T, int kExperts, int kK>
struct Shape {
  static constexpr int kLanes = kK / kPer;  // of a token
  static constexpr int kRowBytes = kExperts * static_cast<int>(sizeof(T));
  static constexpr int kFit = kStageBytes / kRowBytes < 1 ? 1 : kStageBytes / kRowBytes;
  static constexpr int kTokens = 32 / kLanes < kFit ? 32 / kLanes : kFit;
  static constexpr int kRowVectors = kRowBytes / 16;
  static constexpr int kVectors = kTokens * kRowVectors;
  static constexpr int kEach = (kVectors + 31) / 32;  // vectors of a lane
  // Whole rows are copied if they are not much more than the sectors of the selected logits.
  static constexpr bool kIsStaged = kRowBytes <= 32 * kK;
  static_assert(kRowBytes % 16 == 0, "rows must be whole vectors");
  static_assert(kPer == 1 || kPer == 2, "");
};

// For kK = 2, 4, 8 and rows of whole 16-byte vectors. All pointers are aligned to 16 bytes.
template <typename T, int kExperts, int kK>
__global__ void __launch_bounds__(kWarps * 32)
    GradLogitsFixed(const float* __restrict__ grad_weights, const T* __restrict__ logits,
                    const int64_t* __restrict__ indices, T* __restrict__ grad_logits,
                    int64_t tokens) {
  using S = Shape<T, kExperts, kK>;
  __shared__ uint4 stage[kWarps][S::kVectors];
  __shared__ uint4 copies[kWarps][S::kIsStaged ? S::kVectors : 1];

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kWarps + warp) * S::kTokens;
  if (first >= tokens) return;  // the whole warp
  const int64_t left = tokens - first;
  const int count = left < S::kTokens ? static_cast<int>(left) : S::kTokens;
  const int used = count * S::kRowVectors;
  const int local = lane / S::kLanes;  // the token among those of the warp
  const bool active = local < count;

  // All loads at once
  int expert[kPer];
  float grad[kPer];
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    expert[i] = 0;
    grad[i] = 0.0f;
  }
  if (active) {
    const int64_t* const from = indices + first * kK + lane * kPer;
    const float* const grads = grad_weights + first * kK + lane * kPer;
    if constexpr (kPer == 2) {
      const longlong2 both = __ldg(reinterpret_cast<const longlong2*>(from));
      const float2 pair = __ldg(reinterpret_cast<const float2*>(grads));
      expert[0] = static_cast<int>(both.x);
      expert[kPer - 1] = static_cast<int>(both.y);
      grad[0] = pair.x;
      grad[kPer - 1] = pair.y;
    } else {
      expert[0] = static_cast<int>(*from);
      grad[0] = *grads;
    }
  }
  const T* const rows = logits + first * kExperts;
  if constexpr (S::kIsStaged) {
    const uint4* const from = reinterpret_cast<const uint4*>(rows);
#pragma unroll
    for (int i = 0; i < S::kEach; ++i) {
      const int v = lane + 32 * i;
      if (v < used) __pipeline_memcpy_async(&copies[warp][v], from + v, 16);
    }
    __pipeline_commit();
  }

  // While these are on their way, clear the rows.
  uint4* const vectors = stage[warp];
#pragma unroll
  for (int i = 0; i < S::kEach; ++i) {
    const int v = lane + 32 * i;
    if (v < S::kVectors) vectors[v] = make_uint4(0u, 0u, 0u, 0u);
  }

  float logit[kPer];
#pragma unroll
  for (int i = 0; i < kPer; ++i) logit[i] = 0.0f;
  if constexpr (S::kIsStaged) {
    __pipeline_wait_prior(0);
    __syncwarp();
    const T* const staged = reinterpret_cast<const T*>(copies[warp]);
    if (active) {
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
        logit[i] = static_cast<float>(staged[local * kExperts + expert[i]]);
      }
    }
  } else {
    if (active) {
      T selected[kPer];
#pragma unroll
      for (int i = 0; i < kPer; ++i) selected[i] = rows[local * kExperts + expert[i]];
#pragma unroll
      for (int i = 0; i < kPer; ++i) logit[i] = static_cast<float>(selected[i]);
    }
  }

  // the first is the largest one
  float largest = logit[0];
  if constexpr (S::kLanes > 1) largest = __shfl_sync(~0u, logit[0], 0, S::kLanes);
  float weight[kPer];
  float sum = 0.0f;
  float mean = 0.0f;
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    weight[i] = __expf(logit[i] - largest);
    sum += weight[i];
    mean += weight[i] * grad[i];
  }
#pragma unroll
  for (int distance = S::kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(~0u, sum, distance);
    mean += __shfl_xor_sync(~0u, mean, distance);
  }
  const float inverse = 1.0f / sum;
  mean *= inverse;

  __syncwarp();  // the rows are clear
  if (active) {
    T* const to = reinterpret_cast<T*>(vectors) + local * kExperts;
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      to[expert[i]] = static_cast<T>(weight[i] * inverse * (grad[i] - mean));
    }
  }
  __syncwarp();

  uint4* const out = reinterpret_cast<uint4*>(grad_logits + first * kExperts);
#pragma unroll
  for (int i = 0; i < S::kEach; ++i) {
    const int v = lane + 32 * i;
    if (v < used) out[v] = vectors[v];
  }
}

__device__ __forceinline__ float SumOfWarp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(~0u, value, distance);
  }
  return value;
}

// For all sizes: one warp for each token, its row in tiles.
template <typename T, bool kVector>
__global__ void __launch_bounds__(kGeneralWarps * 32)
    GradLogitsGeneral(const float* __restrict__ grad_weights, const T* __restrict__ logits,
                      const int64_t* __restrict__ indices, T* __restrict__ grad_logits,
                      int64_t tokens, int64_t experts, int64_t k) {
  constexpr int kVectors = kGeneralBytes / 16;
  constexpr int kTile = kGeneralBytes / static_cast<int>(sizeof(T));
  constexpr int kPerVector = 16 / static_cast<int>(sizeof(T));
  __shared__ uint4 stage[kGeneralWarps][kVectors];

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kGeneralWarps + warp;
  if (token >= tokens) return;  // the whole warp
  const float* const grads = grad_weights + token * k;
  const T* const row = logits + token * experts;
  const int64_t* const selected = indices + token * k;
  T* const out = grad_logits + token * experts;
  uint4* const vectors = stage[warp];
  T* const tile = reinterpret_cast<T*>(vectors);

  const float largest = static_cast<float>(row[selected[0]]);
  float sum = 0.0f;
  float mean = 0.0f;
  for (int64_t i = lane; i < k; i += 32) {
    const float weight = __expf(static_cast<float>(row[selected[i]]) - largest);
    sum += weight;
    mean += weight * grads[i];
  }
  sum = SumOfWarp(sum);
  mean = SumOfWarp(mean) / sum;
  const float inverse = 1.0f / sum;

  for (int64_t base = 0; base < experts; base += kTile) {
    const int64_t left = experts - base;
    const int count = left < kTile ? static_cast<int>(left) : kTile;
#pragma unroll
    for (int v = lane; v < kVectors; v += 32) vectors[v] = make_uint4(0u, 0u, 0u, 0u);
    __syncwarp();
    for (int64_t i = lane; i < k; i += 32) {
      const int64_t expert = selected[i];
      const int64_t place = expert - base;
      if (place >= 0 && place < count) {
        const float weight = __expf(static_cast<float>(row[expert]) - largest);
        tile[place] = static_cast<T>(weight * inverse * (grads[i] - mean));
      }
    }
    __syncwarp();
    if (kVector) {
      uint4* const to = reinterpret_cast<uint4*>(out + base);
      for (int v = lane; v < count / kPerVector; v += 32) to[v] = vectors[v];
    } else {
      for (int e = lane; e < count; e += 32) out[base + e] = tile[e];
    }
    __syncwarp();  // before the next tile clears the stage
  }
}

template <typename T, int kExperts, int kK>
static void LaunchFixed(const float* grads, const T* logits, const int64_t* indices, T* out,
                        int64_t tokens) {
  constexpr int64_t kPerBlock = static_cast<int64_t>(kWarps) * Shape<T, kExperts, kK>::kTokens;
  const int64_t blocks = (tokens - 1) / kPerBlock + 1;
  TORCH_CHECK(blocks <= 2147483647, "too many tokens");
  GradLogitsFixed<T, kExperts, kK>
      <<<static_cast<unsigned>(blocks), kWarps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
          grads, logits, indices, out, tokens);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T, int kExperts>
static bool TryK(const float* grads, const T* logits, const int64_t* indices, T* out,
                 int64_t tokens, int64_t k) {
  switch (k) {
    case 2:
      LaunchFixed<T, kExperts, 2>(grads, logits, indices, out, tokens);
      return true;
    case 4:
      LaunchFixed<T, kExperts, 4>(grads, logits, indices, out, tokens);
      return true;
    case 8:
      LaunchFixed<T, kExperts, 8>(grads, logits, indices, out, tokens);
      return true;
    default:
      return false;
  }
}

template <typename T>
static void Launch(const torch::Tensor& grad_weights, const torch::Tensor& logits_tensor,
                   const torch::Tensor& indices_tensor, torch::Tensor& grad_logits) {
  const int64_t tokens = logits_tensor.size(0);
  const int64_t experts = logits_tensor.size(1);
  const int64_t k = indices_tensor.size(1);
  const float* const grads = grad_weights.data_ptr<float>();
  const T* const logits = logits_tensor.data_ptr<T>();
  const int64_t* const indices = indices_tensor.data_ptr<int64_t>();
  T* const out = grad_logits.data_ptr<T>();

  const bool out_aligned = reinterpret_cast<uintptr_t>(out) % 16 == 0;
  const bool all_aligned = out_aligned && reinterpret_cast<uintptr_t>(logits) % 16 == 0 &&
                           reinterpret_cast<uintptr_t>(indices) % 16 == 0 &&
                           reinterpret_cast<uintptr_t>(grads) % 16 == 0;
  if (all_aligned) {
    bool done = false;
    switch (experts) {
      case 8:
        done = TryK<T, 8>(grads, logits, indices, out, tokens, k);
        break;
      case 64:
        done = TryK<T, 64>(grads, logits, indices, out, tokens, k);
        break;
      case 128:
        done = TryK<T, 128>(grads, logits, indices, out, tokens, k);
        break;
      case 256:
        done = TryK<T, 256>(grads, logits, indices, out, tokens, k);
        break;
      default:
        break;
    }
    if (done) return;
  }

  const int64_t blocks = (tokens - 1) / kGeneralWarps + 1;
  TORCH_CHECK(blocks <= 2147483647, "too many tokens");
  const auto stream = at::cuda::getCurrentCUDAStream();
  if (out_aligned && experts * static_cast<int64_t>(sizeof(T)) % 16 == 0) {
    GradLogitsGeneral<T, true><<<static_cast<unsigned>(blocks), kGeneralWarps * 32, 0, stream>>>(
        grads, logits, indices, out, tokens, experts, k);
  } else {
    GradLogitsGeneral<T, false><<<static_cast<unsigned>(blocks), kGeneralWarps * 32, 0, stream>>>(
        grads, logits, indices, out, tokens, experts, k);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor backward(torch::Tensor grad_weights, torch::Tensor logits, torch::Tensor indices) {
  TORCH_CHECK(logits.is_cuda() && grad_weights.is_cuda() && indices.is_cuda(),
              "the arguments must be on the GPU");
  TORCH_CHECK(logits.dim() == 2, "logits must be (tokens, experts)");
  TORCH_CHECK(indices.dim() == 2 && indices.size(0) == logits.size(0) &&
                  indices.sizes() == grad_weights.sizes(),
              "indices and grad_weights must be (tokens, k)");
  TORCH_CHECK(indices.scalar_type() == torch::kInt64, "indices must be int64");
  TORCH_CHECK(grad_weights.scalar_type() == torch::kFloat32, "grad_weights must be float32");
  const c10::cuda::CUDAGuard guard(logits.device());
  grad_weights = grad_weights.contiguous();
  logits = logits.contiguous();
  indices = indices.contiguous();
  auto grad_logits = torch::empty(logits.sizes(), logits.options());
  if (grad_logits.numel() == 0) return grad_logits;
  if (indices.numel() == 0) return grad_logits.zero_();
  switch (logits.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(grad_weights, logits, indices, grad_logits);
      break;
    case torch::kFloat16:
      Launch<at::Half>(grad_weights, logits, indices, grad_logits);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(grad_weights, logits, indices, grad_logits);
      break;
    default:
      TORCH_CHECK(false, "logits must be float32, float16 or bfloat16");
  }
  return grad_logits;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradient of top-k gating");
}
