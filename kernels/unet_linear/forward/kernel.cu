// Linear layer over the last dimension, for many rows.
//
// With 64 or 128 features on either side there are 8 to 16 multiply-adds for each byte that moves:
// the ordinary float32 units would bound it, not memory. So products are made by the tensor cores
// out of halves, and keep float32's accuracy: a number, scaled by a power of two that brings the
// largest of its row below 2^14, is the sum of two halves, upper and lower, to 23 bits; of the four
// products of two such numbers all but lower * lower, which is below float32's rounding, are added
// up in float32 (8 steps at most, the three kinds apart). Scales are taken out at the end.
//
// A warp takes 16 rows of x, whose features all lie in its registers: loaded straight from memory,
// all at once, 16 bytes a thread. Weights are split once by each block, into shared memory, in the
// order in which the tensor cores want them: one conflict-free load of 16 bytes gives a thread the
// upper and lower halves for one step. Where in a step of 16 features each of them stands is free,
// as long as both sides agree; so a thread's four are neighbours. So are the four columns of a
// result that a thread stores.
//
// Halves have no place for infinities beside numbers: a warp that sees a result that is not finite
// computes its tile once more in plain float32. Other shapes than those above go another way.
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cfloat>
#include <cstdint>

constexpr int kMultiprocessors = 120;  // about as many blocks are worth having
constexpr int kMostWarps = 8;          // tune: kMostWarps in 4, 8, 16
constexpr int kMostColumns = 64;       // tune: kMostColumns in 64, 128; of a block

// A power of two and its inverse.
struct Scale {
  float up, down;
};
// Brings `largest`, which is not negative, to 2^6 or above and below 2^14. Usual numbers need no
// step or one; what is beyond all steps becomes zero or infinite.
__device__ Scale ScaleOf(float largest) {
  Scale s{256.0f, 1 / 256.0f};
  while (largest * s.up >= 16384.0f && s.up > 0x1p-118f) s = {s.up / 256.0f, s.down * 256.0f};
  while (largest * s.up < 64.0f && largest > 0 && s.up < 0x1p118f) {
    s = {s.up * 256.0f, s.down / 256.0f};
  }
  return s;
}

// Four numbers in upper and lower halves.
struct Split {
  __half2 upper[2], lower[2];
};
__device__ Split SplitOf(float4 v, float scale) {
  Split s;
  s.upper[0] = __floats2half2_rn(v.x * scale, v.y * scale);
  s.upper[1] = __floats2half2_rn(v.z * scale, v.w * scale);
  const float2 a = __half22float2(s.upper[0]);
  const float2 b = __half22float2(s.upper[1]);
  s.lower[0] = __floats2half2_rn(fmaf(v.x, scale, -a.x), fmaf(v.y, scale, -a.y));
  s.lower[1] = __floats2half2_rn(fmaf(v.z, scale, -b.x), fmaf(v.w, scale, -b.y));
  return s;
}

__device__ float Largest(float largest, float4 v) {
  return fmaxf(fmaxf(fmaxf(largest, fabsf(v.x)), fmaxf(fabsf(v.y), fabsf(v.z))), fabsf(v.w));
}
// Over the four lanes that share a row.
__device__ float LargestOfRow(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}

__device__ unsigned Bits(__half2 v) { return *reinterpret_cast<unsigned*>(&v); }

// sums += a * b, 16 x 16 times 16 x 8; `above` and `below` are the rows lane / 4 and 8 more.
__device__ void MultiplyAdd(float (&sums)[4], const __half2 (&above)[2], const __half2 (&below)[2],
                            unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(Bits(above[0])), "r"(Bits(below[0])), "r"(Bits(above[1])), "r"(Bits(below[1])), "r"(b0),
        "r"(b1));
}

// Which of a block's columns stands at place `at` of the tile of 8 columns: tiles go in pairs, so
// that a lane's four results of a pair are neighbours.
__device__ int ColumnAt(int tile, int at) {
  return tile / 2 * 16 + at / 2 * 4 + tile % 2 * 2 + at % 2;
}

// in == 16 * kSteps; columns of a block and out are multiples of 16.
template <int kSteps>
__global__ void __launch_bounds__(kMostWarps * 32)
    Linear(const float* __restrict__ x, const float* __restrict__ weights,
           const float* __restrict__ biases, float* __restrict__ y, int64_t rows, int out,
           int columns) {
  constexpr int kIn = 16 * kSteps;
  extern __shared__ uint4 of_weights[];  // [tile][step][lane]: upper halves, lower halves
  const int first_column = blockIdx.y * columns;
  columns = min(columns, out - first_column);
  float* factors = reinterpret_cast<float*>(of_weights + columns / 8 * kSteps * 32);
  float* of_biases = factors + columns;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const int group = lane / 4;
  const int place = lane % 4;

  // Rows beyond the last are computed from the last, and not stored.
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * warps + warp) * 16 + group;
  const float* of_above = x + min(row, rows - 1) * kIn + place * 4;
  const float* of_below = x + min(row + 8, rows - 1) * kIn + place * 4;
  float4 above[kSteps];
  float4 below[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    above[s] = __ldcs(reinterpret_cast<const float4*>(of_above + s * 16));
    below[s] = __ldcs(reinterpret_cast<const float4*>(of_below + s * 16));
  }

  for (int tile = warp; tile < columns / 8; tile += warps) {
    const int column = ColumnAt(tile, group);
    const float* from = weights + static_cast<int64_t>(first_column + column) * kIn + place * 4;
    float4 v[kSteps];
    float largest = 0;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) v[s] = __ldg(reinterpret_cast<const float4*>(from + s * 16));
    const float bias = __ldg(biases + first_column + column);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) largest = Largest(largest, v[s]);
    const Scale scale = ScaleOf(LargestOfRow(largest));
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const Split split = SplitOf(v[s], scale.up);
      of_weights[(tile * kSteps + s) * 32 + lane] = make_uint4(
          Bits(split.upper[0]), Bits(split.upper[1]), Bits(split.lower[0]), Bits(split.lower[1]));
    }
    if (place == 0) {
      factors[column] = scale.down;
      of_biases[column] = bias;
    }
  }
  __syncthreads();

  float largest_above = 0;
  float largest_below = 0;
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    largest_above = Largest(largest_above, above[s]);
    largest_below = Largest(largest_below, below[s]);
  }
  const Scale scale_above = ScaleOf(LargestOfRow(largest_above));
  const Scale scale_below = ScaleOf(LargestOfRow(largest_below));
  Split a[kSteps];
  Split b[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    a[s] = SplitOf(above[s], scale_above.up);
    b[s] = SplitOf(below[s], scale_below.up);
  }

  bool finite = true;
  for (int pair = 0; pair < columns / 16; ++pair) {
    float sums[2][4] = {};
    float mixed[2][4] = {};
    float crossed[2][4] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 w = of_weights[((pair * 2 + i) * kSteps + s) * 32 + lane];
        MultiplyAdd(mixed[i], a[s].upper, b[s].upper, w.z, w.w);
        MultiplyAdd(sums[i], a[s].upper, b[s].upper, w.x, w.y);
        MultiplyAdd(crossed[i], a[s].lower, b[s].lower, w.x, w.y);
      }
    }
    const int column = pair * 16 + place * 4;
    const float4 factor = *reinterpret_cast<const float4*>(factors + column);
    const float4 bias = *reinterpret_cast<const float4*>(of_biases + column);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float down = half == 0 ? scale_above.down : scale_below.down;
      const int at = 2 * half;
      float4 v;
      v.x = (sums[0][at] + (mixed[0][at] + crossed[0][at])) * down * factor.x + bias.x;
      v.y = (sums[0][at + 1] + (mixed[0][at + 1] + crossed[0][at + 1])) * down * factor.y + bias.y;
      v.z = (sums[1][at] + (mixed[1][at] + crossed[1][at])) * down * factor.z + bias.z;
      v.w = (sums[1][at + 1] + (mixed[1][at + 1] + crossed[1][at + 1])) * down * factor.w + bias.w;
      finite = finite && fabsf(v.x) <= FLT_MAX && fabsf(v.y) <= FLT_MAX && fabsf(v.z) <= FLT_MAX &&
               fabsf(v.w) <= FLT_MAX;
      if (row + 8 * half < rows) {
        __stcs(reinterpret_cast<float4*>(y + (row + 8 * half) * out + first_column + column), v);
      }
    }
  }
  if (__all_sync(0xffffffffu, finite)) return;

  for (int i = lane; i < 16 * columns; i += 32) {
    const int64_t r = row - group + i / columns;
    const int column = first_column + i % columns;
    if (r >= rows) break;
    float sum = 0;
    for (int k = 0; k < kIn; ++k) sum += x[r * kIn + k] * weights[int64_t{column} * kIn + k];
    y[r * out + column] = sum + biases[column];
  }
}

// A sum that keeps what its additions lose: long sums in one thread stay float32's.
struct LongSum {
  float sum = 0, lost = 0;

  __device__ void Add(float v) {
    const float y = v - lost;
    const float t = sum + y;
    lost = fabsf(t) < INFINITY ? (t - sum) - y : 0;
    sum = t;
  }
};

// Any shape: tiles of kTile x kTile outputs, 4 x 4 of them a thread, a slice of the depth at a time
// in shared memory.
constexpr int kTile = 64;
constexpr int kDepth = 16;

__global__ void __launch_bounds__(256)
    AnyLinear(const float* __restrict__ x, const float* __restrict__ weights,
              const float* __restrict__ biases, float* __restrict__ y, int64_t rows, int in,
              int out) {
  __shared__ float of_x[kDepth][kTile + 1];
  __shared__ float of_weights[kDepth][kTile + 1];
  const int tiles = (out + kTile - 1) / kTile;
  const int64_t row = static_cast<int64_t>(blockIdx.x / tiles) * kTile;
  const int column = static_cast<int>(blockIdx.x % tiles) * kTile;
  const int ty = threadIdx.x / 16;
  const int tx = threadIdx.x % 16;
  LongSum sums[4][4];
  for (int depth = 0; depth < in; depth += kDepth) {
    const int k = depth + tx;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int line = ty + i * 16;
      const bool inside = k < in;
      of_x[tx][line] = inside && row + line < rows ? x[(row + line) * in + k] : 0;
      of_weights[tx][line] =
          inside && column + line < out ? weights[int64_t{column + line} * in + k] : 0;
    }
    __syncthreads();
    float parts[4][4] = {};
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          parts[i][j] += of_x[d][ty + i * 16] * of_weights[d][tx + j * 16];
      }
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) sums[i / 4][i % 4].Add(parts[i / 4][i % 4]);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t r = row + ty + i * 16;
      const int o = column + tx + j * 16;
      if (r < rows && o < out) y[r * out + o] = sums[i][j].sum + biases[o];
    }
  }
}

struct Call {
  const float* x;
  const float* weights;
  const float* biases;
  float* y;
  int64_t rows;
  int in, out;
  cudaStream_t stream;

  template <int kSteps>
  void Run() const {
    int warps = kMostWarps;
    int columns = min(out, kMostColumns);
    while (warps > 4 && rows < int64_t{kMultiprocessors} * warps * 16) warps /= 2;
    const size_t shared = static_cast<size_t>(columns) * (64 * kSteps + 8);
    C10_CUDA_CHECK(cudaFuncSetAttribute(Linear<kSteps>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shared)));
    const dim3 grid(static_cast<unsigned>((rows + warps * 16 - 1) / (warps * 16)),
                    (out + columns - 1) / columns);
    Linear<kSteps><<<grid, warps * 32, shared, stream>>>(x, weights, biases, y, rows, out, columns);
  }

  void RunAny() const {
    const int64_t blocks = ((rows + kTile - 1) / kTile) * ((out + kTile - 1) / kTile);
    AnyLinear<<<static_cast<unsigned>(blocks), 256, 0, stream>>>(x, weights, biases, y, rows, in,
                                                                 out);
  }
};

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(x.dim() == 3 && weights.dim() == 2,
              "x must have three dimensions and weights be a matrix");
  TORCH_CHECK(x.size(2) == weights.size(1), "the last dimensions of x and weights must be equal");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each row of weights");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int64_t rows = x.size(0) * x.size(1);
  const int in = static_cast<int>(weights.size(1));
  const int out = static_cast<int>(weights.size(0));
  auto y = torch::empty({x.size(0), x.size(1), out}, x.options());
  if (y.numel() == 0) return y;
  const Call call{x.data_ptr<float>(),
                  weights.data_ptr<float>(),
                  biases.data_ptr<float>(),
                  y.data_ptr<float>(),
                  rows,
                  in,
                  out,
                  at::cuda::getCurrentCUDAStream()};
  const bool aligned = reinterpret_cast<uintptr_t>(call.x) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(call.weights) % 16 == 0;
  if (aligned && in == 128 && out % 16 == 0) {
    call.Run<8>();
  } else if (aligned && in == 64 && out % 16 == 0) {
    call.Run<4>();
  } else {
    call.RunAny();
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer"); }
