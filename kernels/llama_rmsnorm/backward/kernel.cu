// Gradients of RMS normalisation of float32 rows. With s = rsqrt(mean(x^2) + eps) and d = g * w,
// where g is the incoming gradient:
//   grad_x = s * (d - x * s^2 * mean(d * x)),  grad_w = sum over rows of g * x * s.
// x and g are read once: a block holds a row of both in registers between its sums and grad_x, and
// adds the row's share of grad_w to sums that stay in registers while it goes from row to row. The
// blocks that fit on the GPU share the rows equally and leave one vector of sums each; a second
// launch, whose blocks start early and wait, adds those up. x and g are read with the hint
// evict_last: what the L2 drops first are then lines of grad_x, which it has to write anyway. For
// the last rows it is the other way round: as much of grad_x as half of the L2 holds stays there,
// for whoever reads it next. Rows that do not come in aligned vectors, or are too long, take a path
// with loops.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <vector>

constexpr int kBlocks = 3;         // of 256 threads on a multiprocessor; tune: kBlocks in 2, 3, 4
constexpr int kLoopThreads = 256;  // tune: kLoopThreads in 128, 256, 512
constexpr int kGroupRows = 32;     // tune: kGroupRows in 16, 32, 64
constexpr int kColumns = 32;       // of a block that adds up the sums, each by as many threads
constexpr int kAhead = 8;          // loads of such a thread at a time; tune: kAhead in 4, 8, 16

__device__ float WarpSum(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  return value;
}

// The sums over the block's threads, for all of them. Calls must take turns between two `partial`:
// a thread that writes to one has passed the barrier after which the last reader of it has gone on.
template <int kWarps>
__device__ float2 BlockSums(float2 value, float2* partial) {
  value = make_float2(WarpSum(value.x), WarpSum(value.y));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float2 sum = make_float2(0, 0);
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    sum.x += partial[warp].x;
    sum.y += partial[warp].y;
  }
  return sum;
}

__device__ float4 operator*(float4 a, float4 b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}
__device__ float Dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

// How the L2 is to keep lines that are read or written. Where results stay, it keeps those.
struct Hints {
  uint64_t read, write;
};

__device__ Hints HintsOf(bool results_stay) {
  uint64_t first, last, normal;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(first));
  asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(last));
  asm("createpolicy.fractional.L2::evict_normal.b64 %0;" : "=l"(normal));
  return results_stay ? Hints{first, last} : Hints{last, normal};
}

__device__ float4 Load(const float4* p, uint64_t hint) {
  float4 v;
  asm volatile("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p), "l"(hint));
  return v;
}

__device__ void Store(float4* p, float4 v, uint64_t hint) {
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(p), "f"(v.x),
               "f"(v.y), "f"(v.z), "f"(v.w), "l"(hint)
               : "memory");
}

// s, and s^2 * mean(d * x).
struct Factors {
  float scale, pull;
};

__device__ Factors FactorsOf(float2 sums, float length, float eps) {
  const float scale = rsqrtf(sums.x / length + eps);
  // Multiplied in this order nothing overflows while the result is finite.
  return {scale, sums.y / length * scale * scale};
}

__device__ float GradX(float d, float x, Factors f) { return f.scale * (d - x * f.pull); }

__device__ float4 GradX(float4 d, float4 x, Factors f) {
  return make_float4(GradX(d.x, x.x, f), GradX(d.y, x.y, f), GradX(d.z, x.z, f),
                     GradX(d.w, x.w, f));
}

// sums[b]: the share of block b in grad_w, which is that of rows b, b + gridDim.x, ... From row
// `staying` on, grad_x stays in the L2.
template <int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads, kBlocks * 256 / kThreads)
    RowsInRegisters(const float4* __restrict__ grad_output, const float4* __restrict__ x,
                    const float4* __restrict__ w, float4* __restrict__ grad_x,
                    float4* __restrict__ sums, int rows, int vectors, float eps, int staying) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float2 partial[2][kWarps];
  // All blocks are on the GPU at once, so those of the next launch take nobody's place; they wait
  // for the sums by themselves.
  asm volatile("griddepcontrol.launch_dependents;");
  const float length = 4 * static_cast<float>(vectors);
  const float4 zero = make_float4(0, 0, 0, 0);
  float4 weight[kItems], sum[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = threadIdx.x + item * kThreads;
    weight[item] = i < vectors ? w[i] : zero;
    sum[item] = zero;
  }
  int turn = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
    const int64_t start = static_cast<int64_t>(row) * vectors;
    const Hints hints = HintsOf(row >= staying);
    float4 value[kItems], gradient[kItems];
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int i = threadIdx.x + item * kThreads;
      value[item] = i < vectors ? Load(x + start + i, hints.read) : zero;
      gradient[item] = i < vectors ? Load(grad_output + start + i, hints.read) : zero;
    }
    float2 both = make_float2(0, 0);
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      both.x += Dot(value[item], value[item]);
      both.y += Dot(gradient[item] * weight[item], value[item]);
    }
    const Factors f = FactorsOf(BlockSums<kWarps>(both, partial[turn]), length, eps);
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int i = threadIdx.x + item * kThreads;
      const float4 v = value[item], g = gradient[item];
      if (i < vectors) Store(grad_x + start + i, GradX(g * weight[item], v, f), hints.write);
      sum[item].x += g.x * (v.x * f.scale);
      sum[item].y += g.y * (v.y * f.scale);
      sum[item].z += g.z * (v.z * f.scale);
      sum[item].w += g.w * (v.w * f.scale);
    }
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = threadIdx.x + item * kThreads;
    if (i < vectors) sums[static_cast<int64_t>(blockIdx.x) * vectors + i] = sum[item];
  }
}

// One block for each row, of any length and alignment; leaves the row's s.
__global__ void __launch_bounds__(kLoopThreads)
    RowInLoops(const float* __restrict__ grad_output, const float* __restrict__ x,
               const float* __restrict__ w, float* __restrict__ grad_x, float* __restrict__ scales,
               int64_t features, float eps) {
  __shared__ float2 partial[kLoopThreads / 32];
  const int64_t start = blockIdx.x * features;
  float2 both = make_float2(0, 0);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    const float value = x[start + i];
    both.x += value * value;
    both.y += grad_output[start + i] * w[i] * value;
  }
  both = BlockSums<kLoopThreads / 32>(both, partial);
  const Factors f = FactorsOf(both, static_cast<float>(features), eps);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    grad_x[start + i] = GradX(grad_output[start + i] * w[i], x[start + i], f);
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = f.scale;
}

// sums[group, i] = sum over the rows of the group of g * x * s.
__global__ void __launch_bounds__(kLoopThreads)
    GroupSums(const float* __restrict__ grad_output, const float* __restrict__ x,
              const float* __restrict__ scales, float* __restrict__ sums, int64_t rows,
              int64_t features) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kLoopThreads + threadIdx.x;
  if (i >= features) return;
  for (int64_t group = blockIdx.y; group * kGroupRows < rows; group += gridDim.y) {
    const int64_t end = min((group + 1) * kGroupRows, rows);
    float sum = 0;
#pragma unroll 4
    for (int64_t row = group * kGroupRows; row < end; ++row) {
      sum += grad_output[row * features + i] * (x[row * features + i] * scales[row]);
    }
    sums[group * features + i] = sum;
  }
}

// grad_w[i] = the sum of column i of sums, which has `count` rows. A warp goes along the rows, and
// adds up one column in the end.
__global__ void __launch_bounds__(kColumns* kColumns)
    ColumnSums(const float* __restrict__ sums, float* __restrict__ grad_w, int64_t count,
               int64_t features) {
  __shared__ float partial[kColumns][kColumns + 1];  // a bank for each, either way
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kColumns;
  const int64_t i = first + threadIdx.x;
  asm volatile("griddepcontrol.wait;" ::: "memory");  // for what the launch before leaves in sums
  float sum = 0;
  for (int64_t row = threadIdx.y; row < count; row += kAhead * kColumns) {
    float ahead[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const bool inside = row + k * kColumns < count && i < features;
      ahead[k] = inside ? sums[(row + k * kColumns) * features + i] : 0;
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) sum += ahead[k];
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = WarpSum(partial[threadIdx.x][threadIdx.y]);
  if (threadIdx.x == 0 && first + threadIdx.y < features) grad_w[first + threadIdx.y] = sum;
}

// Everything of one call.
struct Call {
  torch::Tensor grad_output, x, w, grad_x, grad_w;
  int64_t features, rows;
  float eps;
};

static void LaunchColumnSums(const Call& call, const torch::Tensor& sums) {
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>((call.features + kColumns - 1) / kColumns));
  config.blockDim = dim3(kColumns, kColumns);
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &early;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, ColumnSums,
                                    static_cast<const float*>(sums.data_ptr<float>()),
                                    call.grad_w.data_ptr<float>(), sums.size(0), call.features));
}

template <int kThreads, int kItems>
static void InRegisters(const Call& call) {
  const int64_t fitting = int64_t{at::cuda::getCurrentDeviceProperties()->multiProcessorCount} *
                          (kBlocks * 256 / kThreads);
  const int64_t blocks = std::min(call.rows, fitting);
  auto sums = torch::empty({blocks, call.features}, call.x.options());
  const int64_t bytes = call.features * static_cast<int64_t>(sizeof(float));  // of a row
  const int64_t stay = at::cuda::getCurrentDeviceProperties()->l2CacheSize / 2 / bytes;
  RowsInRegisters<kThreads, kItems>
      <<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          reinterpret_cast<const float4*>(call.grad_output.data_ptr<float>()),
          reinterpret_cast<const float4*>(call.x.data_ptr<float>()),
          reinterpret_cast<const float4*>(call.w.data_ptr<float>()),
          reinterpret_cast<float4*>(call.grad_x.data_ptr<float>()),
          reinterpret_cast<float4*>(sums.data_ptr<float>()), static_cast<int>(call.rows),
          static_cast<int>(call.features / 4), call.eps,
          static_cast<int>(std::max<int64_t>(call.rows - stay, 0)));
  LaunchColumnSums(call, sums);
}

static void InLoops(const Call& call) {
  const int64_t groups = (call.rows + kGroupRows - 1) / kGroupRows;
  auto scales = torch::empty({call.rows}, call.x.options());
  auto sums = torch::empty({groups, call.features}, call.x.options());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const float* g = call.grad_output.data_ptr<float>();
  const float* x = call.x.data_ptr<float>();
  RowInLoops<<<static_cast<unsigned>(call.rows), kLoopThreads, 0, stream>>>(
      g, x, call.w.data_ptr<float>(), call.grad_x.data_ptr<float>(), scales.data_ptr<float>(),
      call.features, call.eps);
  const dim3 grid(static_cast<unsigned>((call.features + kLoopThreads - 1) / kLoopThreads),
                  static_cast<unsigned>(std::min<int64_t>(groups, 65535)));
  GroupSums<<<grid, kLoopThreads, 0, stream>>>(g, x, scales.data_ptr<float>(),
                                               sums.data_ptr<float>(), call.rows, call.features);
  LaunchColumnSums(call, sums);
}

static bool Aligned(const torch::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data_ptr()) % sizeof(float4) == 0;
}

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor w,
                                    double eps) {
  TORCH_CHECK(x.dim() >= 1 && w.dim() == 1 && x.size(x.dim() - 1) == w.size(0),
              "w must be as long as the last dimension of x");
  TORCH_CHECK(grad_output.sizes() == x.sizes(), "grad_output must have the shape of x");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && w.scalar_type() == torch::kFloat32 &&
                  grad_output.scalar_type() == torch::kFloat32,
              "all tensors must be float32");
  Call call;
  call.grad_output = grad_output.contiguous();
  call.x = x.contiguous();
  call.w = w.contiguous();
  call.grad_x = torch::empty_like(call.x);
  call.features = w.numel();
  call.eps = static_cast<float>(eps);
  if (x.numel() == 0) return {call.grad_x, torch::zeros_like(call.w)};
  call.grad_w = torch::empty_like(call.w);
  call.rows = x.numel() / call.features;
  TORCH_CHECK(call.rows < (int64_t{1} << 31), "x has too many rows");

  const bool in_vectors = call.features % 4 == 0 && Aligned(call.grad_output) && Aligned(call.x) &&
                          Aligned(call.w) && Aligned(call.grad_x);
  if (in_vectors && call.features <= 1024) {
    InRegisters<128, 2>(call);
  } else if (in_vectors && call.features <= 2048) {
    InRegisters<128, 4>(call);
  } else if (in_vectors && call.features <= 4096) {
    InRegisters<256, 4>(call);
  } else if (in_vectors && call.features <= 8192) {
    InRegisters<512, 4>(call);
  } else {
    InLoops(call);
  }
  return {call.grad_x, call.grad_w};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of RMS normalisation");
}
