// Gradients of layer normalisation of long rows. With n = (x - mean) * scale and d = g * weight,
// where g is the incoming gradient:
//   grad_x = scale * (d - mean(d) - n * mean(d * n))
//   grad_weight = sum over rows of g * n,  grad_bias = sum over rows of g.
// Neither x nor g of one row fits beside the sums over rows into the multiprocessors, so both are
// read twice, which is the least there is to read then:
//  - Segments: each warp leaves the moments of x, and the sums of d and of d times x's distance
//    from the segment's mean, in one reading. Warps of a block take the same segment of different
//    rows, which share the weights in the L1 cache. No barriers.
//  - RowFactors: those of a row's segments together, one block for each row.
//  - Gradients: a thread keeps its elements' weights and sums in registers and goes from row to
//    row, from the place where Segments ended, because that is still in the L2 cache.
// x and g are read with the hint evict_last: what the L2 drops first are then lines of grad_x,
// which it has to write anyway. At the end it is the other way round: as much of grad_x as half of
// the L2 holds stays there, for whoever reads it next.
// Each launch begins early and waits for the one before by itself.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

constexpr int kItems = 4;              // vectors of a lane in a segment; tune: kItems in 2, 4, 8
constexpr int kRows = 8;               // of a block of Segments; tune: kRows in 4, 8, 16
constexpr int kRowThreads = 1024;      // of RowFactors
constexpr int kGradientThreads = 256;  // tune: kGradientThreads in 128, 256, 512
constexpr int kUnroll = 4;             // rows whose loads are in flight; tune: kUnroll in 2, 4, 8

// What one load of a thread brings: four floats, or one where rows are not aligned to that.
template <int kWidth>
struct alignas(kWidth * sizeof(float)) Vector {
  float at[kWidth];
};

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

__device__ Vector<1> Load(const Vector<1>* from, uint64_t) { return *from; }
__device__ Vector<4> Load(const Vector<4>* from, uint64_t hint) {
  Vector<4> v;
  asm volatile("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.at[0]), "=f"(v.at[1]), "=f"(v.at[2]), "=f"(v.at[3])
               : "l"(from), "l"(hint));
  return v;
}
__device__ void Store(Vector<1>* to, Vector<1> v, uint64_t) { *to = v; }
__device__ void Store(Vector<4>* to, Vector<4> v, uint64_t hint) {
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to),
               "f"(v.at[0]), "f"(v.at[1]), "f"(v.at[2]), "f"(v.at[3]), "l"(hint)
               : "memory");
}

// Of a segment: x's mean and the sum of its squared distances from it, the sum of d, and the sum of
// d times x's distance from that mean.
struct alignas(16) Sums {
  float mean, squares, plain, along;
};

// Of a row: grad_x = (d - plain) * scale - n * along.
struct alignas(16) Factors {
  float mean, scale, plain, along;
};

__device__ float WarpSum(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  return value;
}

__device__ void WaitForLaunchBefore() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ void LetNextLaunchBegin() { asm volatile("griddepcontrol.launch_dependents;"); }

// How many numbers there are in a segment of a row of `vectors`.
template <int kWidth>
__device__ int SegmentLength(int64_t segment, int64_t vectors) {
  constexpr int64_t kSize = 32 * kItems;
  return kWidth * static_cast<int>(min(kSize, vectors - segment * kSize));
}

template <int kWidth>
__global__ void __launch_bounds__(32 * kRows, 2048 / 64 / kRows)
    Segments(const Vector<kWidth>* __restrict__ grad_output, const Vector<kWidth>* __restrict__ x,
             const Vector<kWidth>* __restrict__ weight, Sums* __restrict__ sums, int rows,
             int64_t vectors, int segments) {
  LetNextLaunchBegin();
  const int row_groups = (rows + kRows - 1) / kRows;
  const int segment = blockIdx.x / row_groups;
  const int row = blockIdx.x % row_groups * kRows + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = threadIdx.x % 32;
  const int64_t first = static_cast<int64_t>(segment) * (32 * kItems) + lane;
  x += row * vectors + first;
  grad_output += row * vectors + first;
  weight += first;
  const int64_t mine = vectors - first;  // vectors from here to the row's end

  const Hints hints = HintsOf(false);
  Vector<kWidth> value[kItems], gradient[kItems], scaled[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    value[item] = item * 32 < mine ? Load(x + item * 32, hints.read) : Vector<kWidth>{};
    gradient[item] =
        item * 32 < mine ? Load(grad_output + item * 32, hints.read) : Vector<kWidth>{};
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    scaled[item] = item * 32 < mine ? weight[item * 32] : Vector<kWidth>{};
  }
  float sum = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sum += value[item].at[e];
  }
  const float mean = WarpSum(sum) / static_cast<float>(SegmentLength<kWidth>(segment, vectors));
  float squares = 0, plain = 0, along = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float off = item * 32 < mine ? value[item].at[e] - mean : 0;
      const float d = gradient[item].at[e] * scaled[item].at[e];
      squares += off * off;
      plain += d;
      along += d * off;
    }
  }
  squares = WarpSum(squares);
  plain = WarpSum(plain);
  along = WarpSum(along);
  if (lane == 0) {
    sums[static_cast<int64_t>(row) * segments + segment] = {mean, squares, plain, along};
  }
}

// The sum over the block's threads, for all of them.
__device__ float BlockSum(float value) {
  __shared__ float partial[kRowThreads / 32];
  value = WarpSum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return WarpSum(partial[threadIdx.x % 32]);
}

// One block for each row.
template <int kWidth>
__global__ void __launch_bounds__(kRowThreads)
    RowFactors(const Sums* __restrict__ sums, Factors* __restrict__ factors, int64_t vectors,
               int segments, float eps) {
  static_assert(kRowThreads == 1024);  // one partial sum for each lane
  LetNextLaunchBegin();
  WaitForLaunchBefore();
  sums += static_cast<int64_t>(blockIdx.x) * segments;
  const float length = static_cast<float>(vectors * kWidth);
  float sum = 0;
#pragma unroll 8
  for (int s = threadIdx.x; s < segments; s += kRowThreads) {
    sum += sums[s].mean * static_cast<float>(SegmentLength<kWidth>(s, vectors));
  }
  const float mean = BlockSum(sum) / length;
  float squares = 0, plain = 0, along = 0;
#pragma unroll 4
  for (int s = threadIdx.x; s < segments; s += kRowThreads) {
    const Sums of = sums[s];
    const float off = of.mean - mean;
    squares += of.squares + static_cast<float>(SegmentLength<kWidth>(s, vectors)) * off * off;
    plain += of.plain;
    along += of.along + of.plain * off;
  }
  const float scale = rsqrtf(BlockSum(squares) / length + eps);
  plain = BlockSum(plain) / length;
  along = BlockSum(along) / length * scale * scale;
  if (threadIdx.x == 0) factors[blockIdx.x] = {mean, scale, plain, along};
}

// One thread for each vector of a row. Results of the last `staying` blocks stay in the L2.
template <int kWidth>
__global__ void __launch_bounds__(kGradientThreads)
    Gradients(const Vector<kWidth>* __restrict__ grad_output, const Vector<kWidth>* __restrict__ x,
              const Vector<kWidth>* __restrict__ weight, const Factors* __restrict__ factors,
              Vector<kWidth>* __restrict__ grad_x, Vector<kWidth>* __restrict__ grad_weight,
              Vector<kWidth>* __restrict__ grad_bias, int rows, int64_t vectors, int64_t staying) {
  const int64_t block = gridDim.x - 1 - blockIdx.x;
  const int64_t i = block * kGradientThreads + threadIdx.x;
  if (i >= vectors) return;
  const Vector<kWidth> w = weight[i];
  const Hints hints = HintsOf(block < staying);
  Vector<kWidth> of_weight{}, of_bias{};
  WaitForLaunchBefore();
#pragma unroll kUnroll
  for (int row = 0; row < rows; ++row) {
    const int64_t at = row * vectors + i;
    const Vector<kWidth> v = Load(x + at, hints.read), g = Load(grad_output + at, hints.read);
    const Factors f = factors[row];
    Vector<kWidth> result;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float off = v.at[e] - f.mean;
      result.at[e] = f.scale * (g.at[e] * w.at[e] - f.plain - off * f.along);
      of_weight.at[e] += g.at[e] * (off * f.scale);
      of_bias.at[e] += g.at[e];
    }
    Store(grad_x + at, result, hints.write);
  }
  Store(grad_weight + i, of_weight, hints.write);
  Store(grad_bias + i, of_bias, hints.write);
}

// A launch that may begin before the one in front of it has ended.
template <typename... Parameters, typename... Arguments>
static void LaunchEarly(void (*kernel)(Parameters...), int64_t blocks, int threads,
                        Arguments... arguments) {
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(threads);
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &early;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

static int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <int kWidth>
static void Launch(const torch::Tensor& grad_output, const torch::Tensor& x,
                   const torch::Tensor& weight, torch::Tensor& grad_x, torch::Tensor& grad_weight,
                   torch::Tensor& grad_bias, float eps) {
  const int64_t vectors = weight.numel() / kWidth;
  const int64_t rows = x.numel() / weight.numel();
  const int64_t segments = CeilDiv(vectors, 32 * kItems);
  const int64_t blocks = segments * CeilDiv(rows, kRows);
  TORCH_CHECK(blocks < (int64_t{1} << 31) && rows < (int64_t{1} << 31), "x is too large");
  auto sums = torch::empty({rows * segments, 4}, x.options());
  auto factors = torch::empty({rows, 4}, x.options());

  const auto* g = static_cast<const Vector<kWidth>*>(grad_output.data_ptr());
  const auto* of_x = static_cast<const Vector<kWidth>*>(x.data_ptr());
  const auto* w = static_cast<const Vector<kWidth>*>(weight.data_ptr());
  auto* of_segments = static_cast<Sums*>(sums.data_ptr());
  auto* of_rows = static_cast<Factors*>(factors.data_ptr());
  Segments<kWidth>
      <<<static_cast<unsigned>(blocks), 32 * kRows, 0, at::cuda::getCurrentCUDAStream()>>>(
          g, of_x, w, of_segments, static_cast<int>(rows), vectors, static_cast<int>(segments));
  LaunchEarly(RowFactors<kWidth>, rows, kRowThreads, of_segments, of_rows, vectors, segments, eps);
  const int64_t of_block = rows * kGradientThreads * static_cast<int64_t>(sizeof(Vector<kWidth>));
  const int64_t staying = at::cuda::getCurrentDeviceProperties()->l2CacheSize / 2 / of_block;
  LaunchEarly(Gradients<kWidth>, CeilDiv(vectors, kGradientThreads), kGradientThreads, g, of_x, w,
              of_rows, static_cast<Vector<kWidth>*>(grad_x.data_ptr()),
              static_cast<Vector<kWidth>*>(grad_weight.data_ptr()),
              static_cast<Vector<kWidth>*>(grad_bias.data_ptr()), rows, vectors, staying);
}

static bool Aligned(const torch::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data_ptr()) % sizeof(Vector<4>) == 0;
}

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                    torch::Tensor weight, double eps) {
  TORCH_CHECK(grad_output.sizes() == x.sizes() && x.dim() >= weight.dim() &&
                  x.sizes().slice(x.dim() - weight.dim()) == weight.sizes(),
              "grad_output must be like x, whose last dimensions are weight's");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && weight.scalar_type() == torch::kFloat32 &&
                  grad_output.scalar_type() == torch::kFloat32,
              "all tensors must be float32");
  grad_output = grad_output.contiguous();
  x = x.contiguous();
  weight = weight.contiguous();
  auto grad_x = torch::empty_like(x);
  if (x.numel() == 0) return {grad_x, torch::zeros_like(weight), torch::zeros_like(weight)};
  auto grad_weight = torch::empty_like(weight);
  auto grad_bias = torch::empty_like(weight);
  const auto launch = weight.numel() % 4 == 0 && Aligned(grad_output) && Aligned(x) &&
                              Aligned(weight) && Aligned(grad_x) && Aligned(grad_weight) &&
                              Aligned(grad_bias)
                          ? &Launch<4>
                          : &Launch<1>;
  launch(grad_output, x, weight, grad_x, grad_weight, grad_bias, static_cast<float>(eps));
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of layer normalisation");
}
