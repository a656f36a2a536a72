#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

#include <cstdint>

// Four neighbouring floats of a row from position k; beyond the row's end zeros.
template <bool kAligned>
__device__ __forceinline__ float4 Load4(const float* row, int k, int in) {
  if constexpr (kAligned) {
    return *reinterpret_cast<const float4*>(row + k);  // in is a multiple of 4, k < in
  } else {
    float4 v;
    v.x = row[k];
    v.y = k + 1 < in ? row[k + 1] : 0.0f;
    v.z = k + 2 < in ? row[k + 2] : 0.0f;
    v.w = k + 3 < in ? row[k + 3] : 0.0f;
    return v;
  }
}

// Adds kCount values over lanes whose numbers differ in the bits below 2 * kDistance: each step
// halves the values a lane keeps and sends the other half to its partner. Among n such lanes, lane l
// afterwards holds the sums from l * kCount / n on.
template <int kCount, int kDistance>
__device__ __forceinline__ void Fold(float* v, int lane) {
  if constexpr (kDistance > 0) {
    if constexpr (kCount > 1) {
      constexpr int kHalf = kCount / 2;
      const bool upper = (lane & kDistance) != 0;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const float keep = upper ? v[i + kHalf] : v[i];
        const float send = upper ? v[i] : v[i + kHalf];
        v[i] = keep + __shfl_xor_sync(0xffffffffu, send, kDistance);
      }
      Fold<kHalf, kDistance / 2>(v, lane);
    } else {
      v[0] += __shfl_xor_sync(0xffffffffu, v[0], kDistance);
      Fold<1, kDistance / 2>(v, lane);
    }
  }
}

// sums[r][c] += a[r] . b[c]
template <int kR, int kC>
__device__ __forceinline__ void MultiplyAdd(float* sums, const float4* a, const float4* b) {
#pragma unroll
  for (int r = 0; r < kR; ++r) {
#pragma unroll
    for (int c = 0; c < kC; ++c) {
      float s = sums[r * kC + c];
      s = fmaf(a[r].x, b[c].x, s);
      s = fmaf(a[r].y, b[c].y, s);
      s = fmaf(a[r].z, b[c].z, s);
      s = fmaf(a[r].w, b[c].w, s);
      sums[r * kC + c] = s;
    }
  }
}

// Whole 8x8 tiles with kIn features, a multiple of 32; aligned to 16 bytes.
template <int kIn, int kWarps>
__global__ void __launch_bounds__(kWarps * 32)
    LinearFixed(const float* __restrict__ x, const float* __restrict__ weights,
                const float* __restrict__ biases, float* __restrict__ y, int out, int col_tiles) {
  static_assert(kIn % 32 == 0 && kWarps >= 2, "whole steps; two warps finish the 64 outputs");
  constexpr int kSteps = kIn / 32;
  constexpr int kEach = (kSteps + kWarps - 1) / kWarps;
  __shared__ float partial[kWarps][64];

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int k_lane = lane % 8;
  const int row_in = lane / 16 * 4;
  const int col_in = lane / 8 % 2 * 4;
  const int first_row = static_cast<int>(blockIdx.x / col_tiles) * 8;
  const int first_col = static_cast<int>(blockIdx.x % col_tiles) * 8;
  const int k = warp * 32 + k_lane * 4;
  const float* x_at = x + static_cast<int64_t>(first_row + row_in) * kIn + k;
  const float* w_at = weights + static_cast<int64_t>(first_col + col_in) * kIn + k;

  float sums[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) sums[i] = 0.0f;

  float4 a[2][4];
  float4 b[2][4];
#pragma unroll
  for (int i = 0; i <= kEach; ++i) {
    // Step i is loaded, then step i - 1 is computed.
    if (i < kEach && ((i + 1) * kWarps <= kSteps || warp + i * kWarps < kSteps)) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        a[i % 2][j] = *reinterpret_cast<const float4*>(x_at + j * kIn + i * kWarps * 32);
        b[i % 2][j] = *reinterpret_cast<const float4*>(w_at + j * kIn + i * kWarps * 32);
      }
    }
    if (i > 0 && (i * kWarps <= kSteps || warp + (i - 1) * kWarps < kSteps)) {
      MultiplyAdd<4, 4>(sums, a[(i + 1) % 2], b[(i + 1) % 2]);
    }
  }

  Fold<16, 4>(sums, lane);  // the lane holds sums 2 * k_lane and the next one of its 4x4
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int s = k_lane * 2 + i;
    partial[warp][(row_in + s / 4) * 8 + col_in + s % 4] = sums[i];
  }
  __syncthreads();
  const int o = threadIdx.x;
  if (o < 64) {
    float parts[kWarps];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) parts[w] = partial[w][o];
    const int col = first_col + o % 8;
    float sum = biases[col];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += parts[w];
    y[static_cast<int64_t>(first_row + o / 8) * out + col] = sum < 0.0f ? 0.0f : sum;
  }
}

constexpr int kMaxWarps = 13;

// The general instance: a block computes kTR * kRG rows by kTC * kCG columns, a thread kTR by kTC.
template <int kTR, int kTC, int kRG, int kCG, bool kAligned>
__global__ void __launch_bounds__(kMaxWarps * 32)
    LinearGeneral(const float* __restrict__ x, const float* __restrict__ weights,
                  const float* __restrict__ biases, float* __restrict__ y, int batch, int in,
                  int out, int col_tiles) {
  constexpr int kLanes = 32 / (kRG * kCG);  // along the features
  constexpr int kRows = kTR * kRG;
  constexpr int kCols = kTC * kCG;
  constexpr int kOutputs = kRows * kCols;
  constexpr int kSums = kTR * kTC;
  __shared__ float partial[kMaxWarps][kOutputs];

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const int k_lane = lane % kLanes;
  const int row_in = lane / kLanes / kCG * kTR;
  const int col_in = lane / kLanes % kCG * kTC;
  const int first_row = static_cast<int>(blockIdx.x / col_tiles) * kRows;
  const int first_col = static_cast<int>(blockIdx.x % col_tiles) * kCols;
  const int last_r = batch - 1 - first_row;  // rows and columns beyond the end repeat the last one
  const int last_c = out - 1 - first_col;
  const float* x_tile = x + static_cast<int64_t>(first_row) * in;
  const float* w_tile = weights + static_cast<int64_t>(first_col) * in;

  float sums[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = 0.0f;

  const int stride = warps * kLanes * 4;
#pragma unroll 1
  for (int k = (warp * kLanes + k_lane) * 4; k < in; k += stride) {
    float4 a[kTR];
    float4 b[kTC];
#pragma unroll
    for (int r = 0; r < kTR; ++r) {
      a[r] = Load4<kAligned>(x_tile + min(row_in + r, last_r) * in, k, in);
    }
#pragma unroll
    for (int c = 0; c < kTC; ++c) {
      b[c] = Load4<kAligned>(w_tile + min(col_in + c, last_c) * in, k, in);
    }
    MultiplyAdd<kTR, kTC>(sums, a, b);
  }

  Fold<kSums, kLanes / 2>(sums, lane);
  constexpr int kHeld = kSums >= kLanes ? kSums / kLanes : 1;      // sums in a lane
  constexpr int kSharing = kSums >= kLanes ? 1 : kLanes / kSums;  // lanes that hold the same sum
  if (k_lane % kSharing == 0) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int s = k_lane / kSharing * kHeld + i;
      partial[warp][(row_in + s / kTC) * kCols + col_in + s % kTC] = sums[i];
    }
  }
  __syncthreads();

  for (int o = threadIdx.x; o < kOutputs; o += blockDim.x) {
    const int r = o / kCols;
    const int c = o % kCols;
    if (r <= last_r && c <= last_c) {
      float sum = biases[first_col + c];
#pragma unroll 4
      for (int w = 0; w < warps; ++w) sum += partial[w][o];
      y[static_cast<int64_t>(first_row + r) * out + first_col + c] = sum < 0.0f ? 0.0f : sum;
    }
  }
}

template <int kTR, int kTC, int kRG, int kCG>
void LaunchGeneral(const float* x, const float* weights, const float* biases, float* y, int batch,
                   int in, int out, bool aligned, cudaStream_t stream) {
  constexpr int kRows = kTR * kRG;
  constexpr int kCols = kTC * kCG;
  constexpr int kStep = 32 / (kRG * kCG) * 4;  // features that a warp takes at a time
  const int row_tiles = (batch + kRows - 1) / kRows;
  const int col_tiles = (out + kCols - 1) / kCols;
  const int64_t blocks = static_cast<int64_t>(row_tiles) * col_tiles;
  TORCH_CHECK(blocks <= 0x7fffffff, "too many outputs");
  const int all_warps = in > 0 ? (in + kStep - 1) / kStep : 1;
  const int steps = (all_warps + kMaxWarps - 1) / kMaxWarps;
  const int warps = (all_warps + steps - 1) / steps;
  auto kernel = LinearGeneral<kTR, kTC, kRG, kCG, false>;
  if (aligned) kernel = LinearGeneral<kTR, kTC, kRG, kCG, true>;
  kernel<<<static_cast<unsigned>(blocks), warps * 32, 0, stream>>>(x, weights, biases, y, batch, in,
                                                                   out, col_tiles);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <int kIn, int kWarps>
void LaunchFixed(const float* x, const float* weights, const float* biases, float* y, int batch,
                 int out, cudaStream_t stream) {
  const int64_t blocks = static_cast<int64_t>(batch / 8) * (out / 8);
  TORCH_CHECK(blocks <= 0x7fffffff, "too many outputs");
  LinearFixed<kIn, kWarps><<<static_cast<unsigned>(blocks), kWarps * 32, 0, stream>>>(
      x, weights, biases, y, out, out / 8);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(x.is_cuda() && weights.is_cuda() && biases.is_cuda(), "arguments must be on the GPU");
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many columns");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each row of weights");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && weights.scalar_type() == torch::kFloat32 &&
                  biases.scalar_type() == torch::kFloat32,
              "arguments must be float32");
  TORCH_CHECK(x.size(0) < (int64_t{1} << 30) && weights.size(0) < (int64_t{1} << 30) &&
                  x.size(1) < (int64_t{1} << 25),
              "sizes too large");
  const c10::cuda::CUDAGuard guard(x.device());
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int batch = static_cast<int>(x.size(0));
  const int in = static_cast<int>(x.size(1));
  const int out = static_cast<int>(weights.size(0));
  auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
  if (y.numel() == 0) return y;
  const float* x_data = x.data_ptr<float>();
  const float* w_data = weights.data_ptr<float>();
  const float* b_data = biases.data_ptr<float>();
  float* y_data = y.data_ptr<float>();
  const bool aligned = in % 4 == 0 && reinterpret_cast<uintptr_t>(x_data) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(w_data) % 16 == 0;
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const bool whole = aligned && batch % 8 == 0 && out % 8 == 0;
  if (whole && in == 1600) {
    LaunchFixed<1600, 13>(x_data, w_data, b_data, y_data, batch, out, stream);
  } else if (whole && in == 512) {
    LaunchFixed<512, 8>(x_data, w_data, b_data, y_data, batch, out, stream);
  } else if (whole && in == 128) {
    LaunchFixed<128, 4>(x_data, w_data, b_data, y_data, batch, out, stream);
  } else if (batch == 1) {
    LaunchGeneral<1, 1, 1, 1>(x_data, w_data, b_data, y_data, batch, in, out, aligned, stream);
  } else if (batch <= 4) {
    LaunchGeneral<4, 2, 1, 1>(x_data, w_data, b_data, y_data, batch, in, out, aligned, stream);
  } else {
    LaunchGeneral<4, 4, 2, 2>(x_data, w_data, b_data, y_data, batch, in, out, aligned, stream);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer with ReLU"); }
