// SwiGLU on pairs of elements, packed loads and stores.
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 256;

template <typename T>
struct Packed;

template <>
struct Packed<float> {
  using type = float2;
  static __device__ float2 load(const float* p) { return *reinterpret_cast<const float2*>(p); }
  static __device__ void store(float* p, float2 v) { *reinterpret_cast<float2*>(p) = v; }
};

template <>
struct Packed<at::Half> {
  using type = __half2;
  static __device__ float2 load(const at::Half* p) {
    return __half22float2(*reinterpret_cast<const __half2*>(p));
  }
  static __device__ void store(at::Half* p, float2 v) {
    *reinterpret_cast<__half2*>(p) = __float22half2_rn(v);
  }
};

template <>
struct Packed<at::BFloat16> {
  using type = __nv_bfloat162;
  static __device__ float2 load(const at::BFloat16* p) {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(p));
  }
  static __device__ void store(at::BFloat16* p, float2 v) {
    *reinterpret_cast<__nv_bfloat162*>(p) = __float22bfloat162_rn(v);
  }
};

__device__ __forceinline__ float silu(float g) { return g / (1.0f + expf(-g)); }

template <typename T, bool kPacked>
__global__ void __launch_bounds__(kThreads)
swiglu_kernel(const T* __restrict__ x, T* __restrict__ y, int hidden) {
  const T* gate = x + static_cast<int64_t>(blockIdx.y) * 2 * hidden;
  const T* value = gate + hidden;
  T* out = y + static_cast<int64_t>(blockIdx.y) * hidden;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (kPacked) {
    const int h = 2 * i;
    if (h + 1 < hidden) {
      const float2 g = Packed<T>::load(gate + h);
      const float2 v = Packed<T>::load(value + h);
      Packed<T>::store(out + h, make_float2(silu(g.x) * v.x, silu(g.y) * v.y));
    } else if (h < hidden) {
      out[h] = static_cast<T>(silu(static_cast<float>(gate[h])) * static_cast<float>(value[h]));
    }
  } else if (i < hidden) {
    out[i] = static_cast<T>(silu(static_cast<float>(gate[i])) * static_cast<float>(value[i]));
  }
}

template <typename T>
void launch(const torch::Tensor& x, torch::Tensor& y) {
  const int tokens = static_cast<int>(x.size(0));
  const int hidden = static_cast<int>(y.size(1));
  const T* in = x.data_ptr<T>();
  T* out = y.data_ptr<T>();
  constexpr uintptr_t kAlign = sizeof(typename Packed<T>::type);
  const bool packed = x.size(1) % 2 == 0 && reinterpret_cast<uintptr_t>(in) % kAlign == 0 &&
                      reinterpret_cast<uintptr_t>(out) % kAlign == 0;
  auto stream = at::cuda::getCurrentCUDAStream();
  if (packed) {
    const int pairs = (hidden + 1) / 2;
    const dim3 grid((pairs + kThreads - 1) / kThreads, tokens);
    swiglu_kernel<T, true><<<grid, kThreads, 0, stream>>>(in, out, hidden);
  } else {
    const dim3 grid((hidden + kThreads - 1) / kThreads, tokens);
    swiglu_kernel<T, false><<<grid, kThreads, 0, stream>>>(in, out, hidden);
  }
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty({x.size(0), x.size(1) / 2}, x.options());
  if (y.numel() == 0) return y;
  if (x.scalar_type() == torch::kFloat32) {
    launch<float>(x, y);
  } else if (x.scalar_type() == torch::kFloat16) {
    launch<at::Half>(x, y);
  } else {
    TORCH_CHECK(x.scalar_type() == torch::kBFloat16, "unsupported dtype");
    launch<at::BFloat16>(x, y);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "SwiGLU"); }
