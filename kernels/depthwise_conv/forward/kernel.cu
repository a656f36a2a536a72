// Depthwise convolution. A block takes a few planes (a channel of a sample) into shared memory as
// float32, with their padding as zeros, so that no product asks where it is. A thread computes four
// neighbouring outputs of kRows rows: it holds the filter in registers and walks down the input's
// rows, each of which it reads once, in 16-byte loads, for all outputs that it touches. Filters
// that no kernel was compiled for, and planes too large, take one thread for each output, or where
// outputs are few a group of lanes that share its products.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kThreads = 256;  // at most, of a block
constexpr int kAnyThreads = 128;
constexpr int kResident = 2048;        // threads on an SM
constexpr int kMostBytes = 100 << 10;  // of shared memory, so that two blocks fit an SM
constexpr int kBatch = 8;              // tune: kBatch in 4, 8  (loads of a thread in flight)
constexpr int kAcross = 4;             // outputs of a thread in a row

// Division of n < 2^31 by a number that the host knows: one high product, one sum, one shift.
struct Divisor {
  uint32_t value, magic, shift;

  explicit Divisor(uint32_t d) : value(d), shift(0) {
    while ((uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  __device__ uint32_t Quotient(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

template <typename T>
struct alignas(sizeof(T) * kAcross) Four {
  T v[kAcross];
};

struct Shape {
  int planes, channels, height, width, out_height, out_width;
};

// A square filter whose padding is half of it.
template <int kFilter_, int kStride_, int kRows_>
struct Filter {
  static constexpr int kFilter = kFilter_, kStride = kStride_, kRows = kRows_;
  static constexpr int kPadding = kFilter / 2;
  static constexpr int kLeft = (kPadding + 3) / 4 * 4;  // zeros before a row, whole vectors
  static constexpr int kWindow = (kLeft - kPadding + (kAcross - 1) * kStride + kFilter + 3) / 4;
};

// How a plane lies in shared memory, and how threads share it.
struct Layout {
  Divisor tiles_across, tiles, pitch_vectors, plane_vectors;
  int block_planes;

  __host__ __device__ int Bytes() const {
    return static_cast<int>(block_planes * plane_vectors.value * 16);
  }
};

template <typename T, typename F, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    Convolve(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ biases,
             T* __restrict__ y, Shape s, Layout layout) {
  constexpr int kArea = F::kFilter * F::kFilter;
  extern __shared__ __align__(16) float planes[];
  float* const filters = planes + layout.Bytes() / 4;
  const int first_plane = blockIdx.x * layout.block_planes;
  const int block_planes = min(layout.block_planes, s.planes - first_plane);
  const auto vectors = static_cast<uint32_t>(block_planes) * layout.plane_vectors.value;
  for (uint32_t start = threadIdx.x; start < vectors; start += kThreads * kBatch) {
    Four<T> batch[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const uint32_t i = start + k * kThreads;
      const uint32_t plane = layout.plane_vectors.Quotient(i);
      const uint32_t within = i - plane * layout.plane_vectors.value;
      const uint32_t row = layout.pitch_vectors.Quotient(within);
      const int column = static_cast<int>(within - row * layout.pitch_vectors.value) * 4 - F::kLeft;
      const int line = static_cast<int>(row) - F::kPadding;
      const T* from =
          x + (static_cast<int64_t>(first_plane + plane) * s.height + line) * s.width + column;
      const bool inside =
          i < vectors && line >= 0 && line < s.height && column >= 0 && column < s.width;
      if constexpr (kAligned) {
        batch[k] = inside ? *reinterpret_cast<const Four<T>*>(from) : Four<T>{};
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          batch[k].v[j] = inside && column + j < s.width ? from[j] : static_cast<T>(0.0f);
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const uint32_t i = start + k * kThreads;
      if (i < vectors) {
        reinterpret_cast<float4*>(planes)[i] = {
            static_cast<float>(batch[k].v[0]), static_cast<float>(batch[k].v[1]),
            static_cast<float>(batch[k].v[2]), static_cast<float>(batch[k].v[3])};
      }
    }
  }
  for (int i = threadIdx.x; i < block_planes * kArea; i += kThreads) {
    const int channel = (first_plane + i / kArea) % s.channels;
    filters[i] = static_cast<float>(weights[channel * kArea + i % kArea]);
  }
  __syncthreads();

  const uint32_t plane = layout.tiles.Quotient(threadIdx.x);
  if (plane >= block_planes) return;
  const uint32_t tile = threadIdx.x - plane * layout.tiles.value;
  const uint32_t tile_y = layout.tiles_across.Quotient(tile);
  const uint32_t tile_x = tile - tile_y * layout.tiles_across.value;
  float filter[F::kFilter][F::kFilter];
#pragma unroll
  for (int i = 0; i < kArea; ++i) {
    filter[i / F::kFilter][i % F::kFilter] = filters[plane * kArea + i];
  }
  const float bias = static_cast<float>(biases[(first_plane + plane) % s.channels]);
  float sums[F::kRows][kAcross];
#pragma unroll
  for (int i = 0; i < F::kRows * kAcross; ++i) sums[i / kAcross][i % kAcross] = bias;

  const uint32_t pitch = layout.pitch_vectors.value;
  const float4* from = reinterpret_cast<const float4*>(planes) +
                       plane * layout.plane_vectors.value + tile_y * F::kRows * F::kStride * pitch +
                       tile_x * F::kStride;
#pragma unroll
  for (int r = 0; r < (F::kRows - 1) * F::kStride + F::kFilter; ++r) {
    float window[F::kWindow * 4];
#pragma unroll
    for (int i = 0; i < F::kWindow; ++i) {
      *reinterpret_cast<float4*>(window + 4 * i) = from[r * pitch + i];
    }
#pragma unroll
    for (int row = 0; row < F::kRows; ++row) {
      const int p = r - row * F::kStride;
      if (p < 0 || p >= F::kFilter) continue;
#pragma unroll
      for (int q = 0; q < F::kFilter; ++q) {
#pragma unroll
        for (int i = 0; i < kAcross; ++i) {
          sums[row][i] += filter[p][q] * window[F::kLeft - F::kPadding + i * F::kStride + q];
        }
      }
    }
  }

  const int column = static_cast<int>(tile_x) * kAcross;
#pragma unroll
  for (int row = 0; row < F::kRows; ++row) {
    const int line = static_cast<int>(tile_y) * F::kRows + row;
    if (line >= s.out_height) break;
    T* to = y + (static_cast<int64_t>(first_plane + plane) * s.out_height + line) * s.out_width +
            column;
    if (s.out_width % kAcross == 0) {
      Four<T> four;
#pragma unroll
      for (int i = 0; i < kAcross; ++i) four.v[i] = static_cast<T>(sums[row][i]);
      *reinterpret_cast<Four<T>*>(to) = four;
    } else {
#pragma unroll
      for (int i = 0; i < kAcross; ++i) {
        if (column + i < s.out_width) to[i] = static_cast<T>(sums[row][i]);
      }
    }
  }
}

// Outputs of some planes, and how the kernel for any filter finds its way.
struct AnyShape {
  uint32_t outputs;
  int first_plane, height, width, taps, stride, padding;
  Divisor channels, out_height, out_width, filter_width;
};

template <typename T, int kLanes>
__global__ void __launch_bounds__(kAnyThreads)
    ConvolveAny(const T* __restrict__ x, const T* __restrict__ weights,
                const T* __restrict__ biases, T* __restrict__ y, AnyShape s) {
  const uint32_t thread = blockIdx.x * kAnyThreads + threadIdx.x;
  const uint32_t output = min(thread / kLanes, s.outputs - 1);
  const uint32_t out_line = s.out_width.Quotient(output);  // of all planes
  const uint32_t plane = s.out_height.Quotient(out_line);
  const uint32_t image_plane = s.first_plane + plane;
  const uint32_t channel = image_plane - s.channels.Quotient(image_plane) * s.channels.value;
  const int column = static_cast<int>(output - out_line * s.out_width.value) * s.stride - s.padding;
  const int line = static_cast<int>(out_line - plane * s.out_height.value) * s.stride - s.padding;
  const T* filter = weights + static_cast<int64_t>(channel) * s.taps;
  const T* from = x + static_cast<int64_t>(plane) * s.height * s.width;
  const auto bias = static_cast<float>(biases[channel]);
  float sum = 0;
#pragma unroll 4
  for (int tap = thread % kLanes; tap < s.taps; tap += kLanes) {
    const int down = static_cast<int>(s.filter_width.Quotient(tap));
    const int r = line + down;
    const int c = column + tap - down * static_cast<int>(s.filter_width.value);
    const bool inside = r >= 0 && r < s.height && c >= 0 && c < s.width;
    const auto weight = inside ? static_cast<float>(filter[tap]) : 0.0f;
    const auto number =
        inside ? static_cast<float>(from[static_cast<int64_t>(r) * s.width + c]) : 0.0f;
    sum += weight * number;
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  if (thread % kLanes == 0 && thread / kLanes < s.outputs) y[output] = static_cast<T>(sum + bias);
}

// What all launches take.
template <typename T>
struct Call {
  const T *x, *weights, *biases;
  T* y;
  Shape s;
  cudaStream_t stream;

  // False where a plane is too large for a block.
  template <typename F>
  bool Launch() const {
    const int across = (s.out_width + kAcross - 1) / kAcross;
    const int down = (s.out_height + F::kRows - 1) / F::kRows;
    const int pitch = std::max((F::kLeft + s.width + F::kPadding + 3) / 4,
                               (across - 1) * F::kStride + F::kWindow);
    const int lines =
        std::max(s.height + 2 * F::kPadding, (down * F::kRows - 1) * F::kStride + F::kFilter);
    const int64_t plane_bytes = int64_t{16} * pitch * lines;
    const int64_t tiles = int64_t{1} * across * down;
    if (tiles > kThreads || plane_bytes > kMostBytes) return false;
    // Rows of x begin and end at multiples of four numbers.
    const bool aligned = s.width % 4 == 0 && reinterpret_cast<uintptr_t>(x) % sizeof(Four<T>) == 0;
    const int block_planes = static_cast<int>(std::min(kThreads / tiles, kMostBytes / plane_bytes));
    const Layout layout{Divisor(across), Divisor(static_cast<uint32_t>(tiles)), Divisor(pitch),
                        Divisor(pitch * lines), block_planes};
    const int bytes = layout.Bytes() + block_planes * F::kFilter * F::kFilter * 4;
    const auto kernel = aligned ? Convolve<T, F, true> : Convolve<T, F, false>;
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<(s.planes + block_planes - 1) / block_planes, kThreads, bytes, stream>>>(
        x, weights, biases, y, s, layout);
    return true;
  }
};

// As many lanes for an output as leave all threads resident at once.
template <typename T>
static void LaunchAny(const Call<T>& call, int filter_height, int filter_width, int stride,
                      int padding) {
  const Shape& s = call.s;
  const int64_t plane = int64_t{s.out_height} * s.out_width;
  const int64_t taps = int64_t{filter_height} * filter_width;
  TORCH_CHECK(plane < int64_t{1} << 31 && taps < int64_t{1} << 31, "planes are too large");
  const int64_t all = plane * s.planes;
  const int64_t resident =
      int64_t{at::cuda::getCurrentDeviceProperties()->multiProcessorCount} * kResident;
  const int lanes = all * 32 <= resident ? 32 : all * 8 <= resident ? 8 : 1;
  const auto kernel = lanes == 32  ? ConvolveAny<T, 32>
                      : lanes == 8 ? ConvolveAny<T, 8>
                                   : ConvolveAny<T, 1>;
  const int64_t most = ((int64_t{1} << 31) - 1) / plane;  // of a launch, that counts in 32 bits
  for (int64_t first = 0; first < s.planes; first += most) {
    const int64_t outputs = std::min(most, s.planes - first) * plane;
    const AnyShape any{static_cast<uint32_t>(outputs),
                       static_cast<int>(first),
                       s.height,
                       s.width,
                       static_cast<int>(taps),
                       stride,
                       padding,
                       Divisor(s.channels),
                       Divisor(s.out_height),
                       Divisor(s.out_width),
                       Divisor(filter_width)};
    kernel<<<static_cast<unsigned>((outputs * lanes + kAnyThreads - 1) / kAnyThreads), kAnyThreads,
             0, call.stream>>>(call.x + first * s.height * s.width, call.weights, call.biases,
                               call.y + first * plane, any);
  }
}

template <typename T>
static void Dispatch(const torch::Tensor& x, const torch::Tensor& weights,
                     const torch::Tensor& biases, torch::Tensor& y, int stride, int padding) {
  const Call<T> call{x.data_ptr<T>(),
                     weights.data_ptr<T>(),
                     biases.data_ptr<T>(),
                     y.data_ptr<T>(),
                     {static_cast<int>(x.size(0) * x.size(1)), static_cast<int>(x.size(1)),
                      static_cast<int>(x.size(2)), static_cast<int>(x.size(3)),
                      static_cast<int>(y.size(2)), static_cast<int>(y.size(3))},
                     at::cuda::getCurrentCUDAStream()};
  const auto height = static_cast<int>(weights.size(2));
  const auto width = static_cast<int>(weights.size(3));
  const auto is = [&](int filter, int by) {
    return height == filter && width == filter && padding == filter / 2 && stride == by;
  };
  // tune: the rows of a thread in 2, 4, 7, 8
  if (is(7, 1) && call.template Launch<Filter<7, 1, 7>>()) return;
  if (is(5, 1) && call.template Launch<Filter<5, 1, 7>>()) return;
  if (is(3, 1) && call.template Launch<Filter<3, 1, 7>>()) return;
  if (is(3, 2) && call.template Launch<Filter<3, 2, 2>>()) return;
  LaunchAny(call, height, width, stride, padding);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, int64_t stride,
                      int64_t padding) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(weights.size(0) == x.size(1) && weights.size(1) == 1 && biases.numel() == x.size(1),
              "a filter and a bias for each channel");
  TORCH_CHECK(weights.scalar_type() == x.scalar_type() && biases.scalar_type() == x.scalar_type(),
              "all tensors must be of one type");
  TORCH_CHECK(stride >= 1 && padding >= 0 && padding < 1 << 20 && stride < 1 << 20,
              "stride must be positive, padding not negative");
  const int64_t height = x.size(2) + 2 * padding - weights.size(2);
  const int64_t width = x.size(3) + 2 * padding - weights.size(3);
  TORCH_CHECK(height >= 0 && width >= 0, "the input is too small for one output");
  TORCH_CHECK(x.size(0) * x.size(1) < int64_t{1} << 31, "too many planes");
  auto y =
      torch::empty({x.size(0), x.size(1), height / stride + 1, width / stride + 1}, x.options());
  if (y.numel() == 0) return y;
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const auto by = static_cast<int>(stride);
  const auto pad = static_cast<int>(padding);
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Dispatch<float>(x, weights, biases, y, by, pad);
      break;
    case torch::kFloat16:
      Dispatch<at::Half>(x, weights, biases, y, by, pad);
      break;
    case torch::kBFloat16:
      Dispatch<at::BFloat16>(x, weights, biases, y, by, pad);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Depthwise convolution"); }
