// Linear layer of a few rows: bound by reading the weights, so one launch in which all of them are
// asked for at once, and no barrier stands between a load and its use.
//
// Up to 16 rows of x are the tensor cores' left factor, 8 rows of weights the right one. A block
// makes kUnits times 8 outputs of each row, such that as many blocks as there are processors make
// all; its warps share the depth. A tensor core may add up in any order: a lane takes 16 bytes in a
// row, of x and of weights alike, for two products. So a lane multiplies just what it has copied
// itself, asynchronously, and waits for nobody until warps add up their sums.
//
// Float32 stays float32: each number is split into two TF32 parts, and three products of parts are
// summed for 16 of the depth at a time, since tensor cores truncate what they add.
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

constexpr int kWarps = 16;  // tune: kWarps in 4, 8, 16
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = 16;  // of x
constexpr int kMaxUnits = 4;
constexpr int kSharedBytes = 192 * 1024;  // tune: kSharedBytes in 96 * 1024, 192 * 1024
constexpr int kPiece = 512;               // bytes: 8 rows of 64, 16 bytes each lane

template <class T>
struct Matrix {
  const T* data;
  int rows, columns;
};

// 16 bytes, the numbers from `left` on as zeros.
template <bool kAligned, class T>
__device__ void Copy(char* to, const T* from, int left, const T* valid) {
  if constexpr (kAligned) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address),
                 "l"(left > 0 ? from : valid), "r"(left > 0 ? 16 : 0));
  } else {
    T* const values = reinterpret_cast<T*>(to);
    for (int i = 0; i < static_cast<int>(16 / sizeof(T)); ++i) {
      values[i] = i < left ? __ldg(from + i) : T{};
    }
  }
}

template <class T>
struct Bits {  // as what 16-bit numbers are copied
  using Type = uint16_t;
};
template <>
struct Bits<float> {
  using Type = float;
};

__device__ void MultiplyTf32(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ uint32_t Tf32(float v) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}

// Four numbers of a row as the tensor cores want them.
template <class T>
struct Factor {
  uint32_t words[4];

  __device__ explicit Factor(uint4 v) : words{v.x, v.y, v.z, v.w} {}
};

template <>
struct Factor<float> {
  uint32_t high[4], low[4];

  __device__ explicit Factor(uint4 v) {
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value = __uint_as_float(words[i]);
      high[i] = Tf32(value);
      low[i] = Tf32(value - __uint_as_float(high[i]));
    }
  }
};

// sums += upper and lower eight rows of x times eight rows of weights.
template <class T>
__device__ void MultiplyAdd(float (&sums)[4], const Factor<T>& upper, const Factor<T>& lower,
                            const Factor<T>& weights) {
  if constexpr (std::is_same_v<T, float>) {
    float parts[4] = {};
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t high[4] = {upper.high[i], lower.high[i], upper.high[i + 1], lower.high[i + 1]};
      const uint32_t low[4] = {upper.low[i], lower.low[i], upper.low[i + 1], lower.low[i + 1]};
      MultiplyTf32(parts, low, weights.high[i], weights.high[i + 1]);
      MultiplyTf32(parts, high, weights.low[i], weights.low[i + 1]);
      MultiplyTf32(parts, high, weights.high[i], weights.high[i + 1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] += parts[i];
  } else {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      if constexpr (std::is_same_v<T, at::Half>) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
            "%7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(upper.words[i]), "r"(lower.words[i]), "r"(upper.words[i + 1]),
              "r"(lower.words[i + 1]), "r"(weights.words[i]), "r"(weights.words[i + 1]));
      } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
            "%7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(upper.words[i]), "r"(lower.words[i]), "r"(upper.words[i + 1]),
              "r"(lower.words[i + 1]), "r"(weights.words[i]), "r"(weights.words[i + 1]));
      }
    }
  }
}

template <class T, int kUnits, int kGroups, bool kAligned>
__global__ void __launch_bounds__(kThreads, 1)
    Linear(Matrix<typename Bits<T>::Type> x, Matrix<typename Bits<T>::Type> weights,
           T* __restrict__ y) {
  using Raw = typename Bits<T>::Type;
  constexpr int kPerLane = 16 / sizeof(T);
  constexpr int kDepth = 4 * kPerLane;  // of a step of a warp
  constexpr int kPieces = kUnits + kGroups;
  constexpr int kStages = kSharedBytes / (kWarps * kPieces * kPiece);
  constexpr int kOutputs = 8 * kUnits;
  extern __shared__ __align__(128) char shared[];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int first_output = static_cast<int>(blockIdx.x) * kOutputs;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kRows;

  // This warp's steps. Those of neighbours lie side by side, for the sake of the memory's pages.
  const int steps = (x.columns + kDepth - 1) / kDepth;
  const int begin = steps * warp / kWarps;
  const int end = steps * (warp + 1) / kWarps;
  const int row = lane / 4;
  char* const mine = shared + warp * kPieces * kPiece + lane * 16;
  const Raw* const from_weights =
      weights.data + static_cast<int64_t>(first_output + row) * weights.columns;
  const Raw* const from_x = x.data + (first_row + row) * x.columns;
  const auto copy = [&](int step) {
    if (step < end) {
      const int k = step * kDepth + lane % 4 * kPerLane;
      char* const to = mine + (step - begin) % kStages * (kWarps * kPieces * kPiece);
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const bool inside = first_output + u * 8 + row < weights.rows;
        Copy<kAligned>(to + u * kPiece,
                       from_weights + static_cast<int64_t>(u) * 8 * weights.columns + k,
                       inside ? weights.columns - k : 0, weights.data);
      }
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        const bool inside = first_row + i * 8 + row < x.rows;
        Copy<kAligned>(to + (kUnits + i) * kPiece,
                       from_x + static_cast<int64_t>(i) * 8 * x.columns + k,
                       inside ? x.columns - k : 0, x.data);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) copy(begin + i);
  float sums[kUnits][4] = {};
#pragma unroll 1
  for (int step = begin; step < end; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    const char* const from = mine + (step - begin) % kStages * (kWarps * kPieces * kPiece);
    const auto piece = [&](int i) {
      return Factor<T>(*reinterpret_cast<const uint4*>(from + i * kPiece));
    };
    const Factor<T> upper = piece(kUnits);
    const Factor<T> lower =
        kGroups > 1 ? piece(kUnits + kGroups - 1) : Factor<T>(make_uint4(0u, 0u, 0u, 0u));
#pragma unroll
    for (int u = 0; u < kUnits; ++u) MultiplyAdd<T>(sums[u], upper, lower, piece(u));
    copy(step + kStages - 1);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  constexpr int kWide = kOutputs + 2;  // keeps rows in different banks
  float* const of_warps = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      float* const to = of_warps + (warp * kRows + row + i * 8) * kWide + u * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(sums[u][2 * i], sums[u][2 * i + 1]);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 8 * kGroups * kOutputs; i += kThreads) {
    const int64_t of_row = first_row + i / kOutputs;
    const int output = first_output + i % kOutputs;
    if (of_row >= x.rows || output >= weights.rows) continue;
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      sum += of_warps[(w * kRows + i / kOutputs) * kWide + i % kOutputs];
    }
    y[of_row * weights.rows + output] = static_cast<T>(sum);
  }
}

template <class T, int kUnits, bool kAligned>
static void LaunchUnits(const torch::Tensor& x, const torch::Tensor& weights, torch::Tensor& y) {
  using Raw = typename Bits<T>::Type;
  const auto matrix = [](const torch::Tensor& tensor) {
    return Matrix<Raw>{static_cast<const Raw*>(tensor.data_ptr()), static_cast<int>(tensor.size(0)),
                       static_cast<int>(tensor.size(1))};
  };
  // Up to eight rows of x: the lower eight of a product are zeros that nobody copies.
  const auto kernel = x.size(0) > 8 ? Linear<T, kUnits, 2, kAligned> : Linear<T, kUnits, 1, kAligned>;
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const dim3 grid(static_cast<unsigned>((weights.size(0) - 1) / (8 * kUnits) + 1),
                  static_cast<unsigned>((x.size(0) - 1) / kRows + 1));
  kernel<<<grid, kThreads, kSharedBytes, at::cuda::getCurrentCUDAStream()>>>(
      matrix(x), matrix(weights), static_cast<T*>(y.data_ptr()));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <class T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights, torch::Tensor& y) {
  const bool aligned = x.size(1) * static_cast<int64_t>(sizeof(T)) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(weights.data_ptr()) % 16 == 0;
  if (!aligned) return LaunchUnits<T, 1, false>(x, weights, y);
  // As few units a block as still make one block a processor.
  const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  switch (std::min<int64_t>(kMaxUnits, (weights.size(0) - 1) / (8 * processors) + 1)) {
    case 1:
      return LaunchUnits<T, 1, true>(x, weights, y);
    case 2:
      return LaunchUnits<T, 2, true>(x, weights, y);
    case 3:
      return LaunchUnits<T, 3, true>(x, weights, y);
    default:
      return LaunchUnits<T, 4, true>(x, weights, y);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many columns");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type(), "x and weights must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, weights, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, weights, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer of few rows"); }
