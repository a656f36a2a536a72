// Depthwise convolution with a shared-memory tile that covers the block's receptive field.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

constexpr int TILE = 16;
constexpr int MAX_KERNEL = 7;
constexpr int MAX_IN = TILE + MAX_KERNEL - 1;

template <typename T>
__global__ void depthwise_conv_kernel(const T* __restrict__ x, const T* __restrict__ weights,
                                      const T* __restrict__ biases, T* __restrict__ y,
                                      int channels, int height, int width, int out_height,
                                      int out_width, int kernel, int stride, int padding) {
  __shared__ float filter[MAX_KERNEL * MAX_KERNEL];
  __shared__ float tile[MAX_IN * MAX_IN];

  const int plane = blockIdx.z;
  const int channel = plane % channels;
  const int tid = threadIdx.y * TILE + threadIdx.x;
  const int extent = (TILE - 1) * stride + kernel;
  const int top = static_cast<int>(blockIdx.y) * TILE * stride - padding;
  const int left = static_cast<int>(blockIdx.x) * TILE * stride - padding;

  if (tid < kernel * kernel) {
    filter[tid] = static_cast<float>(weights[channel * kernel * kernel + tid]);
  }
  const T* in = x + static_cast<int64_t>(plane) * height * width;
  for (int i = tid; i < extent * extent; i += TILE * TILE) {
    const int row = top + i / extent;
    const int col = left + i % extent;
    float v = 0.0f;
    if (row >= 0 && row < height && col >= 0 && col < width) {
      v = static_cast<float>(in[row * width + col]);
    }
    tile[i] = v;
  }
  __syncthreads();

  const int out_row = blockIdx.y * TILE + threadIdx.y;
  const int out_col = blockIdx.x * TILE + threadIdx.x;
  if (out_row < out_height && out_col < out_width) {
    float sum = static_cast<float>(biases[channel]);
    for (int p = 0; p < kernel; ++p) {
      const float* line = tile + (threadIdx.y * stride + p) * extent + threadIdx.x * stride;
      for (int q = 0; q < kernel; ++q) sum = fmaf(filter[p * kernel + q], line[q], sum);
    }
    y[(static_cast<int64_t>(plane) * out_height + out_row) * out_width + out_col] =
        static_cast<T>(sum);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases,
                      int64_t stride, int64_t padding) {
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
  const int kernel = weights.size(2);
  TORCH_CHECK(kernel <= MAX_KERNEL, "kernel too large");
  const int out_height = (height + 2 * padding - kernel) / stride + 1;
  const int out_width = (width + 2 * padding - kernel) / stride + 1;
  auto y = torch::empty({batch, channels, out_height, out_width}, x.options());
  const dim3 block(TILE, TILE);
  const dim3 grid((out_width + TILE - 1) / TILE, (out_height + TILE - 1) / TILE, batch * channels);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "depthwise", [&] {
    depthwise_conv_kernel<scalar_t><<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), weights.data_ptr<scalar_t>(), biases.data_ptr<scalar_t>(),
        y.data_ptr<scalar_t>(), channels, height, width, out_height, out_width, kernel,
        static_cast<int>(stride), static_cast<int>(padding));
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "depthwise convolution"); }
