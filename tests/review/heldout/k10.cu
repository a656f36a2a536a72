// GroupNorm: Welford statistics per group, then per-channel scale and shift.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

constexpr int kThreads = 256;

struct WelfordState {
  float mean;
  float m2;
  float count;
};

__device__ __forceinline__ WelfordState merge(WelfordState a, WelfordState b) {
  const float count = a.count + b.count;
  if (count == 0.0f) return a;
  const float delta = b.mean - a.mean;
  const float ratio = b.count / count;
  return {a.mean + delta * ratio, a.m2 + b.m2 + delta * delta * a.count * ratio, count};
}

__device__ __forceinline__ WelfordState warp_merge(WelfordState s) {
#pragma unroll
  for (int off = 16; off > 0; off >>= 1) {
    WelfordState o{__shfl_xor_sync(0xffffffffu, s.mean, off),
                   __shfl_xor_sync(0xffffffffu, s.m2, off),
                   __shfl_xor_sync(0xffffffffu, s.count, off)};
    s = merge(s, o);
  }
  return s;
}

template <typename T>
__global__ void group_norm_forward(const T* __restrict__ x, const T* __restrict__ weight,
                                   const T* __restrict__ bias, T* __restrict__ y, int groups,
                                   int group_channels, int spatial, float eps) {
  __shared__ WelfordState states[kThreads / 32];
  const int size = group_channels * spatial;
  const T* in = x + static_cast<int64_t>(blockIdx.x) * size;
  T* out = y + static_cast<int64_t>(blockIdx.x) * size;

  WelfordState s{0.0f, 0.0f, 0.0f};
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const float v = static_cast<float>(in[i]);
    s.count += 1.0f;
    const float delta = v - s.mean;
    s.mean += delta / s.count;
    s.m2 += delta * (v - s.mean);
  }
  s = warp_merge(s);
  if (threadIdx.x % 32 == 0) states[threadIdx.x / 32] = s;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  s = lane < kThreads / 32 ? states[lane] : WelfordState{0.0f, 0.0f, 0.0f};
  s = warp_merge(s);
  const float rstd = rsqrtf(s.m2 / s.count + eps);

  const int first_channel = (blockIdx.x % groups) * group_channels;
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const int c = first_channel + i / spatial;
    const float scale = rstd * static_cast<float>(weight[c]);
    const float v = (static_cast<float>(in[i]) - s.mean) * scale + static_cast<float>(bias[c]);
    out[i] = static_cast<T>(v);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, double eps,
                      int64_t num_groups) {
  TORCH_CHECK(x.dim() == 4, "x must be NCHW");
  TORCH_CHECK(x.size(1) % num_groups == 0, "channels must divide into groups");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  auto y = torch::empty_like(x);
  const int groups = static_cast<int>(num_groups);
  const int group_channels = static_cast<int>(x.size(1)) / groups;
  const int spatial = static_cast<int>(x.size(2) * x.size(3));
  const unsigned blocks = static_cast<unsigned>(x.size(0) * num_groups);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "group_norm", [&] {
    group_norm_forward<scalar_t><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), weights.data_ptr<scalar_t>(), biases.data_ptr<scalar_t>(),
        y.data_ptr<scalar_t>(), groups, group_channels, spatial, static_cast<float>(eps));
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "group norm forward"); }
