// Softmax: rows that fit are cached in shared memory, longer ones are read again.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxSharedMemory = 48 * 1024;

struct MaxOp {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  static constexpr float kIdentity = -3.402823466e38f;
};
struct SumOp {
  __device__ float operator()(float a, float b) const { return a + b; }
  static constexpr float kIdentity = 0.0f;
};

template <typename Op>
__device__ float block_reduce(float v, float* scratch) {
  Op op;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (int off = 16; off > 0; off /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, off));
  __syncthreads();
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  v = lane < kWarps ? scratch[lane] : Op::kIdentity;
  for (int off = 16; off > 0; off /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, off));
  return v;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
softmax_cached(const T* __restrict__ x, T* __restrict__ y, int columns) {
  extern __shared__ float row[];
  __shared__ float scratch[kWarps];
  const int64_t base = static_cast<int64_t>(blockIdx.x) * columns;

  float m = MaxOp::kIdentity;
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    const float v = static_cast<float>(x[base + i]);
    row[i] = v;
    m = fmaxf(m, v);
  }
  m = block_reduce<MaxOp>(m, scratch);

  float s = 0.0f;
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    const float e = expf(row[i] - m);
    row[i] = e;
    s += e;
  }
  s = block_reduce<SumOp>(s, scratch);
  const float inv = 1.0f / s;
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    y[base + i] = static_cast<T>(row[i] * inv);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
softmax_streaming(const T* __restrict__ x, T* __restrict__ y, int columns) {
  __shared__ float scratch[kWarps];
  const int64_t base = static_cast<int64_t>(blockIdx.x) * columns;
  float m = MaxOp::kIdentity;
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    m = fmaxf(m, static_cast<float>(x[base + i]));
  }
  m = block_reduce<MaxOp>(m, scratch);
  float s = 0.0f;
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    s += expf(static_cast<float>(x[base + i]) - m);
  }
  s = block_reduce<SumOp>(s, scratch);
  const float inv = 1.0f / s;
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    y[base + i] = static_cast<T>(expf(static_cast<float>(x[base + i]) - m) * inv);
  }
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  const int columns = static_cast<int>(x.size(-1));
  const unsigned rows = static_cast<unsigned>(x.numel() / columns);
  auto stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "softmax", [&] {
    if (columns + kWarps <= kMaxSharedMemory) {
      const size_t shared = static_cast<size_t>(columns) * sizeof(float);
      softmax_cached<scalar_t><<<rows, kThreads, shared, stream>>>(
          x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), columns);
    } else {
      softmax_streaming<scalar_t><<<rows, kThreads, 0, stream>>>(
          x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), columns);
    }
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "softmax"); }
