// Online softmax: one pass for maximum and sum together, one pass for the result.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

struct MaxSum {
  float m;
  float s;
};

__device__ __forceinline__ MaxSum combine(MaxSum a, MaxSum b) {
  const float m = fmaxf(a.m, b.m);
  return {m, a.s * expf(a.m - m) + b.s * expf(b.m - m)};
}

__device__ __forceinline__ MaxSum warp_combine(MaxSum v) {
#pragma unroll
  for (int off = 16; off > 0; off >>= 1) {
    MaxSum o{__shfl_xor_sync(0xffffffffu, v.m, off), __shfl_xor_sync(0xffffffffu, v.s, off)};
    v = combine(v, o);
  }
  return v;
}

template <typename scalar_t>
__global__ void __launch_bounds__(kThreads)
online_softmax(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int columns) {
  __shared__ MaxSum partial[kWarps];
  const scalar_t* in = x + static_cast<int64_t>(blockIdx.x) * columns;
  scalar_t* out = y + static_cast<int64_t>(blockIdx.x) * columns;

  MaxSum v{-INFINITY, 0.0f};
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    const float e = static_cast<float>(in[i]);
    if (e > v.m) {
      v.s = v.s * expf(v.m - e) + 1.0f;
      v.m = e;
    } else {
      v.s += expf(e - v.m);
    }
  }

  v = warp_combine(v);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = partial[threadIdx.x % kWarps];
#pragma unroll
  for (int off = kWarps / 2; off > 0; off >>= 1) {
    MaxSum o{__shfl_xor_sync(0xffffffffu, v.m, off), __shfl_xor_sync(0xffffffffu, v.s, off)};
    v = combine(v, o);
  }

  const float inv = 1.0f / v.s;
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    out[i] = static_cast<scalar_t>(expf(static_cast<float>(in[i]) - v.m) * inv);
  }
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  if (x.numel() == 0) return y;
  const int columns = static_cast<int>(x.size(-1));
  const unsigned rows = static_cast<unsigned>(x.numel() / columns);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "softmax", [&] {
    online_softmax<scalar_t><<<rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), columns);
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "online softmax"); }
