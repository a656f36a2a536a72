// Gradients of a linear layer over the last dimension: the baseline. Two products of matrices in
// tiles: a block of kSide x kSide threads takes kTile x kTile outputs, kPer x kPer of them a
// thread, and walks the depth in slices held in shared memory. The sums over all rows, which are
// long and of few outputs, are made in parts of kPart rows that are added up in order. The gradient
// of the biases is a column more of that of the weights, whose x is one. SPDX-License-Identifier:
// Apache-2.0
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
template <bool kLeftAlongDepth, class Left, class Right, class Store>
__device__ void Multiply(int64_t row, int64_t column, int64_t depth, int64_t end, Left left,
                         Right right, Store store) {
  __shared__ float of_left[kDepth][kTile + 1];
  __shared__ float of_right[kDepth][kTile + 1];
  const int ty = threadIdx.x / kSide;
  const int tx = threadIdx.x % kSide;
  float sums[kPer][kPer] = {};
  for (; depth < end; depth += kDepth) {
    Load<kLeftAlongDepth>(of_left, row, depth, left);
    Load<false>(of_right, column, depth, right);
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

// grad_x[r, i] = sum over o of grad_output[r, o] * weights[o, i].
__global__ void __launch_bounds__(kThreads)
    GradX(const float* __restrict__ grad_output, const float* __restrict__ weights,
          float* __restrict__ grad_x, int64_t rows, int in, int out) {
  const int tiles = (in + kTile - 1) / kTile;
  Multiply<true>(
      static_cast<int64_t>(blockIdx.x / tiles) * kTile, blockIdx.x % tiles * kTile, 0, out,
      [=](int64_t r, int64_t o) { return r < rows && o < out ? grad_output[r * out + o] : 0.0f; },
      [=](int64_t i, int64_t o) { return i < in && o < out ? weights[o * in + i] : 0.0f; },
      [=](int64_t r, int64_t i, float sum) {
        if (r < rows && i < in) grad_x[r * in + i] = sum;
      });
}

// parts[p, o, i] = sum over the rows of part p of grad_output[r, o] * x[r, i]; x[r, in] is 1.
__global__ void __launch_bounds__(kThreads)
    GradWeightParts(const float* __restrict__ grad_output, const float* __restrict__ x,
                    float* __restrict__ parts, int64_t rows, int in, int out) {
  const int tiles = (in + 1 + kTile - 1) / kTile;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kPart;
  const int64_t end = min(first + kPart, rows);
  parts += static_cast<int64_t>(blockIdx.y) * out * (in + 1);
  Multiply<false>(
      static_cast<int64_t>(blockIdx.x / tiles) * kTile, blockIdx.x % tiles * kTile, first, end,
      [=](int64_t o, int64_t r) { return o < out && r < end ? grad_output[r * out + o] : 0.0f; },
      [=](int64_t i, int64_t r) {
        if (i > in || r >= end) return 0.0f;
        return i == in ? 1.0f : x[r * in + i];
      },
      [=](int64_t o, int64_t i, float sum) {
        if (o < out && i <= in) parts[o * (in + 1) + i] = sum;
      });
}

__global__ void __launch_bounds__(kThreads)
    AddParts(const float* __restrict__ parts, float* __restrict__ grad_weights,
             float* __restrict__ grad_biases, int count, int in, int out) {
  const int64_t elements = static_cast<int64_t>(out) * (in + 1);
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= elements) return;
  float sum = 0;
  for (int p = 0; p < count; ++p) sum += parts[p * elements + element];
  const int64_t o = element / (in + 1);
  const int64_t i = element % (in + 1);
  (i == in ? grad_biases[o] : grad_weights[o * in + i]) = sum;
}

static unsigned Tiles(int64_t rows, int64_t columns) {
  return static_cast<unsigned>(((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile));
}

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                    torch::Tensor weights) {
  TORCH_CHECK(grad_output.dim() == 3 && x.dim() == 3 && weights.dim() == 2,
              "grad_output and x must have three dimensions and weights be a matrix");
  TORCH_CHECK(grad_output.size(0) == x.size(0) && grad_output.size(1) == x.size(1) &&
                  grad_output.size(2) == weights.size(0) && x.size(2) == weights.size(1),
              "the shapes of grad_output, x and weights do not fit together");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.numel() > 0 && weights.numel() > 0, "nothing to do for empty tensors");
  grad_output = grad_output.contiguous();
  x = x.contiguous();
  weights = weights.contiguous();
  const int64_t rows = x.size(0) * x.size(1);
  const int in = static_cast<int>(weights.size(1));
  const int out = static_cast<int>(weights.size(0));
  const int64_t count = (rows + kPart - 1) / kPart;
  TORCH_CHECK(count <= 65535, "too many rows: make kPart larger");
  auto parts = torch::empty({count, out, in + 1}, x.options());
  auto grad_x = torch::empty_like(x);
  auto grad_weights = torch::empty_like(weights);
  auto grad_biases = torch::empty({out}, x.options());

  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const float* g = grad_output.data_ptr<float>();
  GradX<<<Tiles(rows, in), kThreads, 0, stream>>>(g, weights.data_ptr<float>(),
                                                  grad_x.data_ptr<float>(), rows, in, out);
  const dim3 grid(Tiles(out, in + 1), static_cast<unsigned>(count));
  GradWeightParts<<<grid, kThreads, 0, stream>>>(g, x.data_ptr<float>(), parts.data_ptr<float>(),
                                                 rows, in, out);
  const int64_t elements = static_cast<int64_t>(out) * (in + 1);
  AddParts<<<static_cast<unsigned>((elements + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      parts.data_ptr<float>(), grad_weights.data_ptr<float>(), grad_biases.data_ptr<float>(),
      static_cast<int>(count), in, out);
  return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of a linear layer");
}
