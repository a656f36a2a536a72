// Basic block of ResNet: the baseline. One kernel does every convolution with what follows it:
// batch normalisation, and where they come the shortcut and ReLU. It is a product of matrices, the
// filters (a row for each output channel) times the windows of x (a column for each place of each
// image), which are read where they lie. A block of kSide x kSide threads takes kTile x kTile
// outputs, kPer x kPer of them a thread, and walks the depth in slices held in shared memory.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kSide = 16;   // threads along each side of a tile
constexpr int kPer = 2;     // tune: kPer in 1, 2, 4, 8
constexpr int kDepth = 16;  // tune: kDepth in 8, 16, 32
constexpr int kTile = kSide * kPer;
constexpr int kThreads = kSide * kSide;

using Optional = c10::optional<torch::Tensor>;

struct Shape {
  int batch, in_channels, height, width;
  int out_channels, kernel, stride, padding;
  int out_height, out_width;

  __host__ __device__ int Depth() const { return in_channels * kernel * kernel; }
  __host__ __device__ int64_t Places() const {
    return static_cast<int64_t>(batch) * out_height * out_width;
  }
};

// What a convolution's sums go through. Pointers are of a number for each output channel, except
// `shortcut`, which is like the output; bias and shortcut may be null.
struct Finish {
  const float *bias, *weight, *offset, *mean, *variance;
  const float* shortcut;
  float eps;
  bool relu;
};

// The element of x under place k of the filter, for output place `column`; zero in the padding.
__device__ float Window(const float* x, int64_t column, int k, const Shape& s) {
  if (column >= s.Places() || k >= s.Depth()) return 0;
  const int ox = static_cast<int>(column % s.out_width);
  const int oy = static_cast<int>(column / s.out_width % s.out_height);
  const int64_t image = column / s.out_width / s.out_height;
  const int column_in = ox * s.stride - s.padding + k % s.kernel;
  const int row_in = oy * s.stride - s.padding + k / s.kernel % s.kernel;
  const int channel = k / (s.kernel * s.kernel);
  if (row_in < 0 || row_in >= s.height || column_in < 0 || column_in >= s.width) return 0;
  return x[((image * s.in_channels + channel) * s.height + row_in) * s.width + column_in];
}

__device__ float Finished(float sum, int channel, int64_t output, const Finish& f) {
  if (f.bias != nullptr) sum += f.bias[channel];
  const float scale = rsqrtf(f.variance[channel] + f.eps) * f.weight[channel];
  float y = (sum - f.mean[channel]) * scale + f.offset[channel];
  if (f.shortcut != nullptr) y += f.shortcut[output];
  return f.relu && y < 0 ? 0 : y;  // a NaN stays one
}

__global__ void __launch_bounds__(kThreads)
    Convolve(const float* __restrict__ x, const float* __restrict__ weights, float* __restrict__ y,
             Shape s, Finish finish) {
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
      const int64_t output = (place / plane * s.out_channels + channel) * plane + place % plane;
      y[output] = Finished(sums[i][j], channel, output, finish);
    }
  }
}

// A convolution and the batch normalisation that follows it, as tensors.
struct Layer {
  torch::Tensor filters;
  Optional bias;
  torch::Tensor weight, offset, mean, variance;

  void MakeContiguous() {
    filters = filters.contiguous();
    if (bias.has_value()) bias = bias->contiguous();
    for (torch::Tensor* t : {&weight, &offset, &mean, &variance}) {
      TORCH_CHECK(t->numel() == filters.size(0), "one number of each kind for an output channel");
      *t = t->contiguous();
    }
  }
};

static torch::Tensor Run(const torch::Tensor& x, Layer layer, int64_t stride, int64_t padding,
                         const Optional& shortcut, bool relu, double eps) {
  TORCH_CHECK(layer.filters.dim() == 4 && layer.filters.size(1) == x.size(1) &&
                  layer.filters.size(2) == layer.filters.size(3),
              "filters must be square and have as many channels as their input");
  layer.MakeContiguous();
  Shape s;
  s.batch = static_cast<int>(x.size(0));
  s.in_channels = static_cast<int>(x.size(1));
  s.height = static_cast<int>(x.size(2));
  s.width = static_cast<int>(x.size(3));
  s.out_channels = static_cast<int>(layer.filters.size(0));
  s.kernel = static_cast<int>(layer.filters.size(2));
  s.stride = static_cast<int>(stride);
  s.padding = static_cast<int>(padding);
  TORCH_CHECK(s.height + 2 * s.padding >= s.kernel && s.width + 2 * s.padding >= s.kernel,
              "the input is too small for one output");
  s.out_height = (s.height + 2 * s.padding - s.kernel) / s.stride + 1;
  s.out_width = (s.width + 2 * s.padding - s.kernel) / s.stride + 1;
  auto y = torch::empty({s.batch, s.out_channels, s.out_height, s.out_width}, x.options());
  if (y.numel() == 0) return y;
  Finish finish;
  finish.bias = layer.bias.has_value() ? layer.bias->data_ptr<float>() : nullptr;
  finish.weight = layer.weight.data_ptr<float>();
  finish.offset = layer.offset.data_ptr<float>();
  finish.mean = layer.mean.data_ptr<float>();
  finish.variance = layer.variance.data_ptr<float>();
  finish.shortcut = nullptr;
  if (shortcut.has_value()) {
    TORCH_CHECK(shortcut->sizes() == y.sizes(), "the shortcut must have the shape of the output");
    finish.shortcut = shortcut->data_ptr<float>();
  }
  finish.eps = static_cast<float>(eps);
  finish.relu = relu;
  const int64_t blocks =
      ((s.Places() + kTile - 1) / kTile) * ((s.out_channels + kTile - 1) / kTile);
  Convolve<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), layer.filters.data_ptr<float>(), y.data_ptr<float>(), s, finish);
  return y;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor conv1_weight, Optional conv1_bias,
                      torch::Tensor bn1_weight, torch::Tensor bn1_bias, torch::Tensor bn1_mean,
                      torch::Tensor bn1_var, torch::Tensor conv2_weight, Optional conv2_bias,
                      torch::Tensor bn2_weight, torch::Tensor bn2_bias, torch::Tensor bn2_mean,
                      torch::Tensor bn2_var, Optional downsample_weight, Optional downsample_bias,
                      Optional downsample_bn_weight, Optional downsample_bn_bias,
                      Optional downsample_bn_mean, Optional downsample_bn_var, int64_t stride,
                      double eps) {
  TORCH_CHECK(x.dim() == 4, "x must have four dimensions");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(stride >= 1, "stride must be positive");
  x = x.contiguous();
  torch::Tensor shortcut = x;
  if (downsample_weight.has_value()) {
    const Layer layer{*downsample_weight,  downsample_bias,     *downsample_bn_weight,
                      *downsample_bn_bias, *downsample_bn_mean, *downsample_bn_var};
    shortcut = Run(x, layer, stride, 0, c10::nullopt, false, eps);
  }
  const Layer first{conv1_weight, conv1_bias, bn1_weight, bn1_bias, bn1_mean, bn1_var};
  const Layer second{conv2_weight, conv2_bias, bn2_weight, bn2_bias, bn2_mean, bn2_var};
  const torch::Tensor middle = Run(x, first, stride, 1, c10::nullopt, true, eps);
  return Run(middle, second, 1, 1, shortcut, true, eps);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Basic block of ResNet"); }
