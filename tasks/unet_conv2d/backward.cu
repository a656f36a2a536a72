// Gradients of a two-dimensional convolution: the baseline. Both are products of matrices whose
// operands are read where they lie. A block of kSide x kSide threads takes kTile x kTile outputs,
// kPer x kPer of them a thread, and walks the depth in slices held in shared memory. The sums over
// all places, which are long and of few outputs, are made in parts of kPart places that are added
// up in order. The gradient of the biases is a column more of that of the filters, whose x is one.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

constexpr int kSide = 16;   // threads along each side of a tile
constexpr int kPer = 2;     // tune: kPer in 1, 2, 4, 8
constexpr int kDepth = 16;  // tune: kDepth in 8, 16, 32
constexpr int kPart = 256;  // tune: kPart in 128, 256, 512, 1024
constexpr int kTile = kSide * kPer;
constexpr int kThreads = kSide * kSide;

struct Shape {
  int batch, in_channels, height, width;
  int out_channels, kernel_height, kernel_width;
  int stride, padding;
  int out_height, out_width;

  __host__ __device__ int Window() const { return kernel_height * kernel_width; }
  __host__ __device__ int Filter() const { return in_channels * Window(); }
  __host__ __device__ int OutPlane() const { return out_height * out_width; }
  __host__ __device__ int64_t OutPlaces() const { return static_cast<int64_t>(batch) * OutPlane(); }
  __host__ __device__ int64_t InPlaces() const {
    return static_cast<int64_t>(batch) * height * width;
  }
};

// A slice of an operand: its lines from `first` on, at depths from `depth` on. Neighbouring threads
// take neighbouring lines, or neighbouring depths, as the operand lies in memory.
template <bool kAlongDepth, class Operand>
__device__ void Load(float (&slice)[kDepth][kTile + 1], int64_t first, int64_t depth,
                     Operand operand) {
  for (int i = threadIdx.x; i < kDepth * kTile; i += kThreads) {
    const int line = kAlongDepth ? i / kDepth : i % kTile;
    const int k = kAlongDepth ? i % kDepth : i / kTile;
    slice[k][line] = operand(first + line, depth + k);
  }
}

// This thread's outputs of the tile at (row, column): sums over depths of left * right.
template <bool kAlongDepth, class Left, class Right, class Store>
__device__ void Multiply(int64_t row, int64_t column, int64_t depth, int64_t end, Left left,
                         Right right, Store store) {
  __shared__ float of_left[kDepth][kTile + 1];
  __shared__ float of_right[kDepth][kTile + 1];
  const int ty = threadIdx.x / kSide;
  const int tx = threadIdx.x % kSide;
  float sums[kPer][kPer] = {};
  for (; depth < end; depth += kDepth) {
    Load<kAlongDepth>(of_left, row, depth, left);
    Load<kAlongDepth>(of_right, column, depth, right);
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
#pragma unroll
        for (int j = 0; j < kPer; ++j) {
          sums[i][j] += of_left[k][ty + i * kSide] * of_right[k][tx + j * kSide];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
#pragma unroll
    for (int j = 0; j < kPer; ++j) store(row + ty + i * kSide, column + tx + j * kSide, sums[i][j]);
  }
}

// Rows are channels of x, columns its places, depths output channels and places of the filter.
__global__ void __launch_bounds__(kThreads)
    GradX(const float* __restrict__ grad_output, const float* __restrict__ weights,
          float* __restrict__ grad_x, Shape s) {
  const int tiles = (s.in_channels + kTile - 1) / kTile;
  const int64_t depth = static_cast<int64_t>(s.out_channels) * s.Window();
  const auto filter = [=](int64_t c, int64_t k) {
    if (c >= s.in_channels || k >= depth) return 0.0f;
    return weights[(k / s.Window() * s.in_channels + c) * s.Window() + k % s.Window()];
  };
  // The output place that met this place of x under place k of the filter, if there is one.
  const auto arrived = [=](int64_t place, int64_t k) {
    if (place >= s.InPlaces() || k >= depth) return 0.0f;
    const int y = static_cast<int>(place / s.width % s.height) + s.padding -
                  static_cast<int>(k / s.kernel_width % s.kernel_height);
    const int x =
        static_cast<int>(place % s.width) + s.padding - static_cast<int>(k % s.kernel_width);
    if (y < 0 || x < 0 || y % s.stride != 0 || x % s.stride != 0) return 0.0f;
    if (y / s.stride >= s.out_height || x / s.stride >= s.out_width) return 0.0f;
    const int64_t image = place / s.width / s.height;
    return grad_output[(image * s.out_channels + k / s.Window()) * s.OutPlane() +
                       y / s.stride * s.out_width + x / s.stride];
  };
  const int64_t plane = static_cast<int64_t>(s.height) * s.width;
  Multiply<false>(static_cast<int64_t>(blockIdx.x % tiles) * kTile,
                  static_cast<int64_t>(blockIdx.x / tiles) * kTile, 0, depth, filter, arrived,
                  [=](int64_t c, int64_t place, float sum) {
                    if (c >= s.in_channels || place >= s.InPlaces()) return;
                    grad_x[(place / plane * s.in_channels + c) * plane + place % plane] = sum;
                  });
}

// Rows are output channels, columns places of the filter and the bias, depths output places of part
// blockIdx.y.
__global__ void __launch_bounds__(kThreads)
    GradFilterParts(const float* __restrict__ grad_output, const float* __restrict__ x,
                    float* __restrict__ parts, Shape s) {
  const int tiles = (s.Filter() + 1 + kTile - 1) / kTile;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kPart;
  const int64_t end = min(first + kPart, s.OutPlaces());
  parts += static_cast<int64_t>(blockIdx.y) * s.out_channels * (s.Filter() + 1);
  const auto gradient = [=](int64_t o, int64_t place) {
    if (o >= s.out_channels || place >= end) return 0.0f;
    return grad_output[(place / s.OutPlane() * s.out_channels + o) * s.OutPlane() +
                       place % s.OutPlane()];
  };
  const auto met = [=](int64_t k, int64_t place) {
    if (k > s.Filter() || place >= end) return 0.0f;
    if (k == s.Filter()) return 1.0f;
    const int row = static_cast<int>(place / s.out_width % s.out_height) * s.stride - s.padding +
                    static_cast<int>(k / s.kernel_width % s.kernel_height);
    const int column = static_cast<int>(place % s.out_width) * s.stride - s.padding +
                       static_cast<int>(k % s.kernel_width);
    if (row < 0 || row >= s.height || column < 0 || column >= s.width) return 0.0f;
    const int64_t image = place / s.OutPlane();
    return x[((image * s.in_channels + k / s.Window()) * s.height + row) * s.width + column];
  };
  Multiply<true>(static_cast<int64_t>(blockIdx.x / tiles) * kTile,
                 static_cast<int64_t>(blockIdx.x % tiles) * kTile, first, end, gradient, met,
                 [=](int64_t o, int64_t k, float sum) {
                   if (o < s.out_channels && k <= s.Filter()) parts[o * (s.Filter() + 1) + k] = sum;
                 });
}

__global__ void __launch_bounds__(kThreads)
    AddParts(const float* __restrict__ parts, float* __restrict__ grad_weights,
             float* __restrict__ grad_biases, int count, Shape s) {
  const int64_t elements = static_cast<int64_t>(s.out_channels) * (s.Filter() + 1);
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= elements) return;
  float sum = 0;
  for (int p = 0; p < count; ++p) sum += parts[p * elements + element];
  const int64_t o = element / (s.Filter() + 1);
  const int64_t k = element % (s.Filter() + 1);
  (k == s.Filter() ? grad_biases[o] : grad_weights[o * s.Filter() + k]) = sum;
}

static unsigned Tiles(int64_t rows, int64_t columns) {
  return static_cast<unsigned>(((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile));
}

static Shape ShapeOf(const torch::Tensor& grad_output, const torch::Tensor& x,
                     const torch::Tensor& weights, int64_t stride, int64_t padding) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many channels");
  TORCH_CHECK(stride >= 1 && padding >= 0, "stride must be positive, padding not negative");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.numel() > 0 && weights.numel() > 0, "nothing to do for empty tensors");
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
  TORCH_CHECK(grad_output.dim() == 4 && grad_output.size(0) == s.batch &&
                  grad_output.size(1) == s.out_channels && grad_output.size(2) == s.out_height &&
                  grad_output.size(3) == s.out_width && grad_output.numel() > 0,
              "grad_output must have the shape of the output");
  return s;
}

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                    torch::Tensor weights, int64_t stride, int64_t padding) {
  const Shape s = ShapeOf(grad_output, x, weights, stride, padding);
  grad_output = grad_output.contiguous();
  x = x.contiguous();
  weights = weights.contiguous();
  const int64_t count = (s.OutPlaces() + kPart - 1) / kPart;
  TORCH_CHECK(count <= 65535, "too many places: make kPart larger");
  const int64_t elements = static_cast<int64_t>(s.out_channels) * (s.Filter() + 1);
  auto parts = torch::empty({count, elements}, x.options());
  auto grad_x = torch::empty_like(x);
  auto grad_weights = torch::empty_like(weights);
  auto grad_biases = torch::empty({s.out_channels}, x.options());

  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const float* g = grad_output.data_ptr<float>();
  GradX<<<Tiles(s.in_channels, s.InPlaces()), kThreads, 0, stream>>>(g, weights.data_ptr<float>(),
                                                                     grad_x.data_ptr<float>(), s);
  const dim3 grid(Tiles(s.out_channels, s.Filter() + 1), static_cast<unsigned>(count));
  GradFilterParts<<<grid, kThreads, 0, stream>>>(g, x.data_ptr<float>(), parts.data_ptr<float>(),
                                                 s);
  AddParts<<<static_cast<unsigned>((elements + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      parts.data_ptr<float>(), grad_weights.data_ptr<float>(), grad_biases.data_ptr<float>(),
      static_cast<int>(count), s);
  return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of a convolution");
}
