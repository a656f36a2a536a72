// GELU, elementwise with a grid-stride loop and four elements in flight per thread.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <string>

constexpr int kThreads = 256;
constexpr int kUnroll = 4;

__device__ __forceinline__ float fast_tanh(float u) {
  const float e = __expf(2.0f * u);
  return __fdividef(e - 1.0f, e + 1.0f);
}

struct TanhGelu {
  __device__ float operator()(float x) const {
    const float inner = 0.79788456f * x * fmaf(0.044715f * x, x, 1.0f);
    return 0.5f * x * (1.0f + fast_tanh(inner));
  }
};

struct ErfGelu {
  __device__ float operator()(float x) const {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  }
};

template <typename T, typename F>
__global__ void __launch_bounds__(kThreads)
activation_kernel(const T* __restrict__ x, T* __restrict__ y, int64_t n, F f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * kUnroll;
  for (int64_t start = static_cast<int64_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
       start < n; start += step) {
    float v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t i = start + u * kThreads;
      v[u] = i < n ? static_cast<float>(x[i]) : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t i = start + u * kThreads;
      if (i < n) y[i] = static_cast<T>(f(v[u]));
    }
  }
}

torch::Tensor forward(torch::Tensor x, std::string approximate) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  if (n == 0) return y;
  const int64_t per_block = kThreads * kUnroll;
  const int blocks = static_cast<int>(std::min<int64_t>((n + per_block - 1) / per_block, 132 * 16));
  auto stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "gelu", [&] {
    if (approximate == "tanh") {
      activation_kernel<<<blocks, kThreads, 0, stream>>>(x.data_ptr<scalar_t>(),
                                                         y.data_ptr<scalar_t>(), n, TanhGelu{});
    } else {
      activation_kernel<<<blocks, kThreads, 0, stream>>>(x.data_ptr<scalar_t>(),
                                                         y.data_ptr<scalar_t>(), n, ErfGelu{});
    }
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "GELU"); }
