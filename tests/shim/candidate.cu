// A candidate that uses most of the shim's features for device code and launches.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/AccumulateType.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/detail/KernelUtils.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAMathCompat.h>
#include <c10/util/complex.h>
#include <torch/extension.h>

#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/NumericLimits.cuh>
#include <ATen/cuda/PhiloxUtils.cuh>
#include <ATen/cuda/detail/IndexUtils.cuh>
#include <ATen/native/cuda/block_reduce.cuh>
#include <THC/THCAtomics.cuh>
#include <THC/THCDeviceUtils.cuh>

#define CHECK_INPUT(x)                                   \
  TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor"); \
  TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")

template <typename scalar_t>
__global__ void RowNorm(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int columns,
                        float eps) {
  using acc_t = at::acc_type<scalar_t, true>;
  __shared__ acc_t shared[32];
  __shared__ scalar_t copy[1];
  acc_t sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    acc_t v = static_cast<acc_t>(__ldg(x + blockIdx.x * columns + i));
    sum += v * v;
  }
  sum = at::native::cuda_utils::BlockReduceSum<acc_t>(sum, shared);
  if (threadIdx.x == 0) copy[0] = static_cast<scalar_t>(sum);
  __syncthreads();
  acc_t scale = c10::cuda::compat::rsqrt(static_cast<acc_t>(copy[0]) / columns + eps);
  CUDA_KERNEL_LOOP(i, columns) { y[i] = x[i] * static_cast<scalar_t>(scale) + scalar_t(1); }
}

template <typename scalar_t>
__global__ void Mixed(at::PackedTensorAccessor32<scalar_t, 2, at::RestrictPtrTraits> x,
                      torch::PackedTensorAccessor64<scalar_t, 1> y) {
  at::opmath_type<scalar_t> v = x[threadIdx.x][0];
  y[threadIdx.x] = static_cast<scalar_t>(v) - y[threadIdx.x] / scalar_t(2.f);
  gpuAtomicAdd(&y[0], static_cast<scalar_t>(v));
}

template <typename T>
__global__ void Atomics(at::cuda::detail::TensorInfo<T, int> x, at::PhiloxCudaState state) {
  const int at = at::cuda::detail::IndexToOffset<T, int, -1>::get(threadIdx.x, x);
  const T value = at::numeric_limits<T>::lower_bound();
  gpuAtomicAdd(x.data + at, value);
  gpuAtomicMul(x.data + at, value);
  gpuAtomicMax(x.data + at, value);
  gpuAtomicMin(x.data + at, at::_isnan(value) ? value : T(0));
  const c10::complex<float> z = std::exp(c10::complex<float>(0.f, 1.f)) / 2.f;
  const uint64_t seed = std::get<0>(at::cuda::philox::unpack(state));
  if (at::exp(std::abs(z)) > static_cast<float>(seed)) gpuAtomicAddNoReturn(x.data, value);
}

__global__ void Halves(const __half* h, c10::Half* out, at::BFloat16* b) {
  c10::Half x = h[0];
  out[0] = -x * 2 + 1.0f;
  b[0] = static_cast<at::BFloat16>(static_cast<float>(x));
  out[1] = std::numeric_limits<at::Half>::lowest();
  __half back = x;
  out[2] = __hadd(back, back);
}

torch::Tensor forward(torch::Tensor x, double eps) {
  CHECK_INPUT(x);
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto y = torch::empty_like(x);
  const int64_t rows = x.numel() / x.size(-1);
  auto stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "row_norm", ([&] {
        RowNorm<scalar_t><<<rows, 128, 0, stream>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
                                                    x.size(-1), static_cast<float>(eps));
      }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

std::tuple<at::Tensor, at::Tensor> mixed(const at::Tensor& x, const c10::optional<at::Tensor>& w) {
  auto y = torch::zeros({x.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "mixed", [&] {
    Mixed<scalar_t>
        <<<dim3(1), dim3(x.size(0))>>>(x.packed_accessor32<scalar_t, 2, at::RestrictPtrTraits>(),
                                       y.packed_accessor64<scalar_t, 1>());
  });
  if (x.size(0) == 0) {
    AT_DISPATCH_ALL_TYPES_AND3(
        at::kHalf, at::kBFloat16, at::kBool, x.scalar_type(), "atomics", [&] {
          Atomics<<<1, THCCeilDiv(64, 2)>>>(at::cuda::detail::getTensorInfo<scalar_t, int>(x), {});
        });
  }
  auto h = x.to(torch::kHalf);
  Halves<<<1, 1, 0, at::cuda::getDefaultCUDAStream()>>>(
      reinterpret_cast<const __half*>(h.data_ptr<at::Half>()), h.data_ptr<c10::Half>(),
      static_cast<at::BFloat16*>(h.data_ptr()));
  AT_CUDA_CHECK(cudaGetLastError());
  return {y, w.value_or(h)};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "row norm", py::arg("x"), py::arg("eps") = 1e-6);
  m.def("mixed", &mixed, py::arg("x"), py::arg("w") = c10::nullopt);
}
