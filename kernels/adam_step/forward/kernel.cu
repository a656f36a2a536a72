// A step of Adam with decoupled weight decay: seven streams of numbers, four in and three out, so
// its time is the memory's. A thread takes four neighbours, 16 bytes of each float32 stream, and
// asks for all of them before the first use. Inputs are read with the hint evict_last: what the L2
// drops first are then lines of the results, which it has to write anyway, and reads and writes
// disturb each other less. The last results, as many as fit, are to stay in the L2 instead, for
// whoever reads them next, and the inputs are to leave it. Few parameters, and tensors that do not
// begin at vectors, go by single elements: more threads, each with less to do.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>
#include <tuple>

constexpr int kThreads = 256;     // tune: kThreads in 128, 256, 512
constexpr int kFewThreads = 128;  // where single elements take one wave

struct Numbers {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size;   // learning rate / (1 - beta1^step)
  float correction;  // 1 / (1 - beta2^step)
  float keep;        // 1 - learning rate * weight decay
  float eps;
};

struct State {
  const float* parameters;
  const float* mean;
  const float* square;
  float* new_parameters;
  float* new_mean;
  float* new_square;
};

// The new values take the old ones' place.
__device__ void Update(float& parameter, float g, float& mean, float& square, const Numbers& n) {
  mean = n.beta1 * mean + n.one_minus_beta1 * g;
  square = n.beta2 * square + n.one_minus_beta2 * g * g;
  const float root = sqrtf(square * n.correction) + n.eps;
  parameter = parameter * n.keep - n.step_size * __fdividef(mean, root);
}

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

__device__ float4 LoadFour(const float* p, uint64_t hint) {
  float4 v;
  asm volatile("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p), "l"(hint));
  return v;
}

__device__ uint2 LoadBits(const void* p, uint64_t hint) {
  uint2 v;
  asm volatile("ld.global.nc.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;"
               : "=r"(v.x), "=r"(v.y)
               : "l"(p), "l"(hint));
  return v;
}

__device__ float4 LoadFour(const at::Half* p, uint64_t hint) {
  const uint2 bits = LoadBits(p, hint);
  const float2 a = __half22float2(reinterpret_cast<const __half2&>(bits.x));
  const float2 b = __half22float2(reinterpret_cast<const __half2&>(bits.y));
  return make_float4(a.x, a.y, b.x, b.y);
}

__device__ float4 LoadFour(const at::BFloat16* p, uint64_t hint) {
  const uint2 bits = LoadBits(p, hint);
  const float2 a = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(bits.x));
  const float2 b = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(bits.y));
  return make_float4(a.x, a.y, b.x, b.y);
}

__device__ void StoreFour(float* p, float4 v, uint64_t hint) {
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(p), "f"(v.x),
               "f"(v.y), "f"(v.z), "f"(v.w), "l"(hint)
               : "memory");
}

template <typename T>
__device__ void UpdateOne(const T* gradient, const State& state, const Numbers& numbers,
                          int64_t i) {
  const float g = static_cast<float>(gradient[i]);
  float parameter = state.parameters[i], mean = state.mean[i], square = state.square[i];
  Update(parameter, g, mean, square, numbers);
  state.new_parameters[i] = parameter;
  state.new_mean[i] = mean;
  state.new_square[i] = square;
}

// Results stay in the L2 from element `staying` on, or all of them, which saves small problems the
// choice.
template <typename T, bool kAllStay>
__global__ void __launch_bounds__(kThreads)
    InVectors(const T* __restrict__ gradient, State state, Numbers numbers, int64_t elements,
              int64_t staying) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * 4;
  if (i + 4 <= elements) {
    const Hints hints = HintsOf(kAllStay || i >= staying);
    const float4 g = LoadFour(gradient + i, hints.read);
    float4 mean = LoadFour(state.mean + i, hints.read);
    float4 square = LoadFour(state.square + i, hints.read);
    float4 parameter = LoadFour(state.parameters + i, hints.read);
    Update(parameter.x, g.x, mean.x, square.x, numbers);
    Update(parameter.y, g.y, mean.y, square.y, numbers);
    Update(parameter.z, g.z, mean.z, square.z, numbers);
    Update(parameter.w, g.w, mean.w, square.w, numbers);
    StoreFour(state.new_mean + i, mean, hints.write);
    StoreFour(state.new_square + i, square, hints.write);
    StoreFour(state.new_parameters + i, parameter, hints.write);
  } else {
    for (int64_t j = i; j < elements; ++j) UpdateOne(gradient, state, numbers, j);
  }
}

template <typename T>
__global__ void __launch_bounds__(kFewThreads)
    InElements(const T* __restrict__ gradient, State state, Numbers numbers, int64_t elements) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kFewThreads + threadIdx.x;
  if (i < elements) UpdateOne(gradient, state, numbers, i);
}

static bool Aligned(const void* p, size_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

template <typename T>
static void Launch(const torch::Tensor& gradient, const State& state, const Numbers& numbers) {
  const int64_t elements = gradient.numel();
  const int64_t few = int64_t{at::cuda::getCurrentDeviceProperties()->multiProcessorCount} * 512;
  const auto* g = gradient.data_ptr<T>();
  bool in_vectors = elements > few && Aligned(g, 4 * sizeof(T));
  for (const float* p : {state.parameters, state.mean, state.square}) {
    in_vectors = in_vectors && Aligned(p, sizeof(float4));
  }
  const int of_block = in_vectors ? 4 * kThreads : kFewThreads;
  const int64_t blocks = (elements - 1) / of_block + 1;
  TORCH_CHECK(blocks < (int64_t{1} << 31), "too many parameters");
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  if (in_vectors) {
    const int64_t fit = at::cuda::getCurrentDeviceProperties()->l2CacheSize / (3 * sizeof(float));
    const bool all_stay = elements <= fit / 4 * 3;
    const auto kernel = all_stay ? InVectors<T, true> : InVectors<T, false>;
    kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        g, state, numbers, elements, all_stay ? 0 : elements - fit / 2);
  } else {
    InElements<T>
        <<<static_cast<unsigned>(blocks), kFewThreads, 0, stream>>>(g, state, numbers, elements);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> forward(
    torch::Tensor parameters, torch::Tensor gradient, torch::Tensor mean, torch::Tensor square,
    int64_t step, double learning_rate, double beta1, double beta2, double eps,
    double weight_decay) {
  TORCH_CHECK(parameters.sizes() == gradient.sizes() && parameters.sizes() == mean.sizes() &&
                  parameters.sizes() == square.sizes(),
              "parameters, gradient, mean and square must have one shape");
  TORCH_CHECK(parameters.scalar_type() == torch::kFloat32 &&
                  mean.scalar_type() == torch::kFloat32 && square.scalar_type() == torch::kFloat32,
              "parameters, mean and square must be float32");
  parameters = parameters.contiguous();
  gradient = gradient.contiguous();
  mean = mean.contiguous();
  square = square.contiguous();
  auto new_parameters = torch::empty_like(parameters);
  auto new_mean = torch::empty_like(mean);
  auto new_square = torch::empty_like(square);
  if (parameters.numel() == 0) return {new_parameters, new_mean, new_square};
  const State state{parameters.data_ptr<float>(), mean.data_ptr<float>(),
                    square.data_ptr<float>(),     new_parameters.data_ptr<float>(),
                    new_mean.data_ptr<float>(),   new_square.data_ptr<float>()};
  Numbers numbers{};
  numbers.beta1 = static_cast<float>(beta1);
  numbers.one_minus_beta1 = static_cast<float>(1 - beta1);
  numbers.beta2 = static_cast<float>(beta2);
  numbers.one_minus_beta2 = static_cast<float>(1 - beta2);
  const double count = static_cast<double>(step);
  numbers.step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1, count)));
  numbers.correction = static_cast<float>(1 / (1 - std::pow(beta2, count)));
  numbers.keep = static_cast<float>(1 - learning_rate * weight_decay);
  numbers.eps = static_cast<float>(eps);
  switch (gradient.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(gradient, state, numbers);
      break;
    case torch::kFloat16:
      Launch<at::Half>(gradient, state, numbers);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(gradient, state, numbers);
      break;
    default:
      TORCH_CHECK(false, "gradient must be float32, float16 or bfloat16");
  }
  return {new_parameters, new_mean, new_square};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Step of Adam"); }
