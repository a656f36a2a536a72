// Gradients of layer normalisation of long rows: the baseline. A row is cut into chunks of kChunk
// elements, one block for each. Moments and Dots leave a chunk's sums, and each following kernel
// puts those of its row together. With n = (x - mean) * scale and d = grad_output * weight:
//   grad_x = scale * (d - mean(d) - n * mean(d * n))
//   grad_weight = sum over rows of grad_output * n,  grad_bias = sum over rows of grad_output.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512
constexpr int kChunk = 4096;   // tune: kChunk in 2048, 4096, 8192, 16384
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

struct Shape {
  int64_t length;  // of a row
  int64_t chunks;  // of a row; the last one may be shorter
  int64_t rows;
};

// Where a block works, and its row's mean and scale.
struct Place {
  int64_t row, chunk;
  int64_t first;  // element of the row
  int count;      // of elements
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

__device__ Place OfBlock(Shape s) {
  const int64_t chunk = blockIdx.x % s.chunks;
  return {blockIdx.x / s.chunks, chunk, chunk * kChunk, ChunkLength(s, chunk)};
}

// means and squares: of each chunk, its mean and the sum of squared distances from it.
__global__ void __launch_bounds__(kThreads)
    Moments(const float* __restrict__ x, float* __restrict__ means, float* __restrict__ squares,
            Shape s) {
  const Place at = OfBlock(s);
  const float* from = x + at.row * s.length + at.first;
  float sum = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < at.count; i += kThreads) sum += from[i];
  const float mean = BlockSum(sum) / static_cast<float>(at.count);
  sum = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < at.count; i += kThreads) {
    sum += (from[i] - mean) * (from[i] - mean);
  }
  const float square = BlockSum(sum);
  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    squares[blockIdx.x] = square;
  }
}

// statistics: of each row, its mean and scale. One block for each row.
__global__ void __launch_bounds__(kThreads)
    RowStatistics(const float* __restrict__ means, const float* __restrict__ squares,
                  float2* __restrict__ statistics, float eps, Shape s) {
  means += blockIdx.x * s.chunks;
  squares += blockIdx.x * s.chunks;
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
  if (threadIdx.x == 0) statistics[blockIdx.x] = make_float2(mean, scale);
}

// dots: of each chunk, the sums of d and of d * n.
__global__ void __launch_bounds__(kThreads)
    Dots(const float* __restrict__ grad_output, const float* __restrict__ x,
         const float* __restrict__ weight, const float2* __restrict__ statistics,
         float2* __restrict__ dots, Shape s) {
  const Place at = OfBlock(s);
  const float2 row = statistics[at.row];
  const int64_t start = at.row * s.length;
  float plain = 0, along = 0;
#pragma unroll kUnroll
  for (int64_t i = at.first + threadIdx.x; i < at.first + at.count; i += kThreads) {
    const float d = grad_output[start + i] * weight[i];
    plain += d;
    along += d * ((x[start + i] - row.x) * row.y);
  }
  plain = BlockSum(plain);
  along = BlockSum(along);
  if (threadIdx.x == 0) dots[blockIdx.x] = make_float2(plain, along);
}

__global__ void __launch_bounds__(kThreads)
    GradX(const float* __restrict__ grad_output, const float* __restrict__ x,
          const float* __restrict__ weight, const float2* __restrict__ statistics,
          const float2* __restrict__ dots, float* __restrict__ grad_x, Shape s) {
  const Place at = OfBlock(s);
  float plain = 0, along = 0;
  for (int64_t c = threadIdx.x; c < s.chunks; c += kThreads) {
    const float2 chunk = dots[at.row * s.chunks + c];
    plain += chunk.x;
    along += chunk.y;
  }
  plain = BlockSum(plain) / static_cast<float>(s.length);
  along = BlockSum(along) / static_cast<float>(s.length);
  const float2 row = statistics[at.row];
  const int64_t start = at.row * s.length;
#pragma unroll kUnroll
  for (int64_t i = at.first + threadIdx.x; i < at.first + at.count; i += kThreads) {
    const float d = grad_output[start + i] * weight[i];
    const float n = (x[start + i] - row.x) * row.y;
    grad_x[start + i] = row.y * (d - plain - n * along);
  }
}

// One thread for each element of weight and bias.
__global__ void __launch_bounds__(kThreads)
    GradAffine(const float* __restrict__ grad_output, const float* __restrict__ x,
               const float2* __restrict__ statistics, float* __restrict__ grad_weight,
               float* __restrict__ grad_bias, Shape s) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= s.length) return;
  float weight = 0, bias = 0;
#pragma unroll kUnroll
  for (int64_t r = 0; r < s.rows; ++r) {
    const float g = grad_output[r * s.length + i];
    const float2 row = statistics[r];
    weight += g * ((x[r * s.length + i] - row.x) * row.y);
    bias += g;
  }
  grad_weight[i] = weight;
  grad_bias[i] = bias;
}

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                    torch::Tensor weight, double eps) {
  TORCH_CHECK(grad_output.sizes() == x.sizes() && x.dim() >= weight.dim() &&
                  x.sizes().slice(x.dim() - weight.dim()) == weight.sizes(),
              "grad_output must be like x, whose last dimensions are weight's");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.numel() > 0, "nothing to do for empty tensors");
  grad_output = grad_output.contiguous();
  x = x.contiguous();
  weight = weight.contiguous();
  Shape s;
  s.length = weight.numel();
  s.chunks = (s.length + kChunk - 1) / kChunk;
  s.rows = x.numel() / s.length;
  TORCH_CHECK(s.rows * s.chunks < (int64_t{1} << 31), "x is too large: make kChunk larger");
  const auto blocks = static_cast<unsigned>(s.rows * s.chunks);
  auto means = torch::empty({s.rows * s.chunks}, x.options());
  auto squares = torch::empty({s.rows * s.chunks}, x.options());
  auto statistics = torch::empty({s.rows, 2}, x.options());
  auto dots = torch::empty({s.rows * s.chunks, 2}, x.options());
  auto grad_x = torch::empty_like(x);
  auto grad_weight = torch::empty_like(weight);
  auto grad_bias = torch::empty_like(weight);

  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const float* g = grad_output.data_ptr<float>();
  const float* x_data = x.data_ptr<float>();
  const float* w = weight.data_ptr<float>();
  auto* of_rows = reinterpret_cast<float2*>(statistics.data_ptr<float>());
  auto* of_chunks = reinterpret_cast<float2*>(dots.data_ptr<float>());
  Moments<<<blocks, kThreads, 0, stream>>>(x_data, means.data_ptr<float>(),
                                           squares.data_ptr<float>(), s);
  RowStatistics<<<static_cast<unsigned>(s.rows), kThreads, 0, stream>>>(
      means.data_ptr<float>(), squares.data_ptr<float>(), of_rows, static_cast<float>(eps), s);
  Dots<<<blocks, kThreads, 0, stream>>>(g, x_data, w, of_rows, of_chunks, s);
  GradX<<<blocks, kThreads, 0, stream>>>(g, x_data, w, of_rows, of_chunks, grad_x.data_ptr<float>(),
                                         s);
  const auto elements = static_cast<unsigned>((s.length + kThreads - 1) / kThreads);
  GradAffine<<<elements, kThreads, 0, stream>>>(g, x_data, of_rows, grad_weight.data_ptr<float>(),
                                                grad_bias.data_ptr<float>(), s);
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of layer normalisation");
}
