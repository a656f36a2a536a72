// Two-dimensional convolution: the baseline. It is a product of matrices, the filters (a row for
// each output channel) times the windows of x (a column for each place of each image), whose depth
// runs over channels and places of the filter; windows are read where they lie. A block of kSide x
// kSide threads takes kTile x kTile outputs, kPer x kPer of them a thread, and walks the depth in
// slices held in shared memory. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kSide = 16;   // threads along each side of a tile
constexpr int kPer = 2;     // tune: kPer in 1, 2, 4, 8
constexpr int kDepth = 16;  // tune: kDepth in 8, 16, 32
constexpr int kTile = kSide * kPer;
constexpr int kThreads = kSide * kSide;

struct Shape {
  int batch, in_channels, height, width;
  int out_channels, kernel_height, kernel_width;
  int stride, padding;
  int out_height, out_width;

  __host__ __device__ int Depth() const { return in_channels * kernel_height * kernel_width; }
  __host__ __device__ int64_t Places() const {
    return static_cast<int64_t>(batch) * out_height * out_width;
  }
};

// The element of x under place k of the filter, for output place `column`; zero in the padding.
__device__ float Window(const float* x, int64_t column, int k, const Shape& s) {
  if (column >= s.Places() || k >= s.Depth()) return 0;
  const int ox = static_cast<int>(column % s.out_width);
  const int oy = static_cast<int>(column / s.out_width % s.out_height);
  const int64_t image = column / s.out_width / s.out_height;
  const int column_in = ox * s.stride - s.padding + k % s.kernel_width;
  const int row_in = oy * s.stride - s.padding + k / s.kernel_width % s.kernel_height;
  const int channel = k / (s.kernel_width * s.kernel_height);
  if (row_in < 0 || row_in >= s.height || column_in < 0 || column_in >= s.width) return 0;
  return x[((image * s.in_channels + channel) * s.height + row_in) * s.width + column_in];
}

__global__ void __launch_bounds__(kThreads)
    Convolve(const float* __restrict__ x, const float* __restrict__ weights,
             const float* __restrict__ biases, float* __restrict__ y, Shape s) {
  __shared__ float filters[kDepth][kTile + 1];
  __shared__ float windows[kDepth][kTile + 1];
  const int tiles = (s.out_channels + kTile - 1) / kTile;
  const int first_channel = static_cast<int>(blockIdx.x % tiles) * kTile;
  const int64_t first_place = static_cast<int64_t>(blockIdx.x / tiles) * kTile;
  const int ty = threadIdx.x / kSide;
  const int tx = threadIdx.x % kSide;

  float sums[kPer][kPer] = {};
  for (int depth = 0; depth < s.Depth(); depth += kDepth) {
    for (int i = threadIdx.x; i < kDepth * kTile; i += kThreads) {
      const int64_t channel = first_channel + i / kDepth;
      const int k = depth + i % kDepth;
      filters[i % kDepth][i / kDepth] =
          channel < s.out_channels && k < s.Depth() ? weights[channel * s.Depth() + k] : 0.0f;
      windows[i / kTile][i % kTile] = Window(x, first_place + i % kTile, depth + i / kTile, s);
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
#pragma unroll
        for (int j = 0; j < kPer; ++j) {
          sums[i][j] += filters[k][ty + i * kSide] * windows[k][tx + j * kSide];
        }
      }
    }
    __syncthreads();
  }
  const int64_t plane = static_cast<int64_t>(s.out_height) * s.out_width;
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int channel = first_channel + ty + i * kSide;
      const int64_t place = first_place + tx + j * kSide;
      if (channel >= s.out_channels || place >= s.Places()) continue;
      y[(place / plane * s.out_channels + channel) * plane + place % plane] =
          sums[i][j] + biases[channel];
    }
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, int64_t stride,
                      int64_t padding) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many channels");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each output channel");
  TORCH_CHECK(stride >= 1 && padding >= 0, "stride must be positive, padding not negative");
  TORCH_CHECK(
      x.size(2) + 2 * padding >= weights.size(2) && x.size(3) + 2 * padding >= weights.size(3),
      "x is too small for one output");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  Shape s;
  s.batch = static_cast<int>(x.size(0));
  s.in_channels = static_cast<int>(x.size(1));
  s.height = static_cast<int>(x.size(2));
  s.width = static_cast<int>(x.size(3));
  s.out_channels = static_cast<int>(weights.size(0));
  s.kernel_height = static_cast<int>(weights.size(2));
  s.kernel_width = static_cast<int>(weights.size(3));
  s.stride = static_cast<int>(stride);
  s.padding = static_cast<int>(padding);
  s.out_height = (s.height + 2 * s.padding - s.kernel_height) / s.stride + 1;
  s.out_width = (s.width + 2 * s.padding - s.kernel_width) / s.stride + 1;
  auto y = torch::empty({s.batch, s.out_channels, s.out_height, s.out_width}, x.options());
  if (y.numel() == 0) return y;
  const int64_t blocks =
      ((s.Places() + kTile - 1) / kTile) * ((s.out_channels + kTile - 1) / kTile);
  Convolve<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weights.data_ptr<float>(), biases.data_ptr<float>(), y.data_ptr<float>(),
      s);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Convolution"); }
