// Layer normalisation of long rows: the baseline. A row is cut into chunks of kChunk elements, one
// block for each. Moments leaves every chunk's mean and squared deviation; Normalize puts those of
// its row together, around the row's mean so that large means cost nothing, and writes its chunk.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512
constexpr int kChunk = 4096;   // tune: kChunk in 2048, 4096, 8192, 16384
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

struct Shape {
  int64_t length;  // of a row
  int64_t chunks;  // of a row; the last one may be shorter
};

// The sum over the block's threads, known to all of them.
__device__ float BlockSum(float value) {
  __shared__ float partial[kThreads];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) partial[threadIdx.x] += partial[threadIdx.x + distance];
    __syncthreads();
  }
  const float sum = partial[0];
  __syncthreads();  // the next sum writes there
  return sum;
}

__device__ int ChunkLength(Shape s, int64_t chunk) {
  return static_cast<int>(min(static_cast<int64_t>(kChunk), s.length - chunk * kChunk));
}

__global__ void __launch_bounds__(kThreads)
    Moments(const float* __restrict__ x, float* __restrict__ means, float* __restrict__ squares,
            Shape s) {
  const int64_t chunk = blockIdx.x % s.chunks;
  const float* from = x + blockIdx.x / s.chunks * s.length + chunk * kChunk;
  const int count = ChunkLength(s, chunk);
  float sum = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < count; i += kThreads) sum += from[i];
  const float mean = BlockSum(sum) / static_cast<float>(count);
  sum = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < count; i += kThreads) sum += (from[i] - mean) * (from[i] - mean);
  const float square = BlockSum(sum);
  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    squares[blockIdx.x] = square;
  }
}

__global__ void __launch_bounds__(kThreads)
    Normalize(const float* __restrict__ x, const float* __restrict__ weight,
              const float* __restrict__ bias, const float* __restrict__ means,
              const float* __restrict__ squares, float* __restrict__ y, float eps, Shape s) {
  const int64_t row = blockIdx.x / s.chunks;
  const int64_t chunk = blockIdx.x % s.chunks;
  means += row * s.chunks;
  squares += row * s.chunks;
  const float length = static_cast<float>(s.length);
  float sum = 0;
  for (int64_t c = threadIdx.x; c < s.chunks; c += kThreads) {
    sum += means[c] * (static_cast<float>(ChunkLength(s, c)) / length);
  }
  const float mean = BlockSum(sum);
  sum = 0;
  for (int64_t c = threadIdx.x; c < s.chunks; c += kThreads) {
    const float off = means[c] - mean;
    sum += squares[c] + static_cast<float>(ChunkLength(s, c)) * off * off;
  }
  const float scale = rsqrtf(BlockSum(sum) / length + eps);

  const int64_t place = chunk * kChunk;  // within the row
  const int count = ChunkLength(s, chunk);
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const int64_t element = row * s.length + place + i;
    y[element] = (x[element] - mean) * scale * weight[place + i] + bias[place + i];
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  TORCH_CHECK(weight.numel() > 0 && weight.sizes() == bias.sizes() && x.dim() >= weight.dim() &&
                  x.sizes().slice(x.dim() - weight.dim()) == weight.sizes(),
              "weight and bias must have the last dimensions of x, which must not be empty");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  weight = weight.contiguous();
  bias = bias.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  const Shape s{weight.numel(), (weight.numel() + kChunk - 1) / kChunk};
  const int64_t blocks = x.numel() / s.length * s.chunks;
  TORCH_CHECK(blocks < (int64_t{1} << 31), "x is too large: make kChunk larger");
  auto means = torch::empty({blocks}, x.options());
  auto squares = torch::empty({blocks}, x.options());

  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  Moments<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      x.data_ptr<float>(), means.data_ptr<float>(), squares.data_ptr<float>(), s);
  Normalize<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
      means.data_ptr<float>(), squares.data_ptr<float>(), y.data_ptr<float>(),
      static_cast<float>(eps), s);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Layer normalisation"); }
