// y = x W^T + b with 32x32 shared-memory tiles; each thread owns four rows of a column.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#define TILE 32
#define ROWS 8

__global__ void linear_kernel(const float* __restrict__ x, const float* __restrict__ w,
                              const float* __restrict__ b, float* __restrict__ y, int M, int N,
                              int K) {
  __shared__ float xs[TILE][TILE + 1];
  __shared__ float ws[TILE][TILE + 1];

  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int m0 = blockIdx.y * TILE;
  const int n0 = blockIdx.x * TILE;

  float acc[TILE / ROWS] = {0.0f};

  for (int k0 = 0; k0 < K; k0 += TILE) {
    const int k = k0 + tx;
#pragma unroll
    for (int r = 0; r < TILE; r += ROWS) {
      const int m = m0 + ty + r;
      const int n = n0 + ty + r;
      xs[ty + r][tx] = (m < M && k < K) ? x[m * K + k] : 0.0f;
      ws[ty + r][tx] = (n < N && k < K) ? w[n * K + k] : 0.0f;
    }
    __syncthreads();
    const int kmax = min(TILE, K - k0);
    for (int kk = 0; kk < kmax; ++kk) {
      const float wv = ws[tx][kk];
#pragma unroll
      for (int r = 0; r < TILE / ROWS; ++r) acc[r] = fmaf(xs[ty + r * ROWS][kk], wv, acc[r]);
    }
    __syncthreads();
  }

  const int n = n0 + tx;
  if (n < N) {
    const float bias = b[n];
#pragma unroll
    for (int r = 0; r < TILE / ROWS; ++r) {
      const int m = m0 + ty + r * ROWS;
      if (m < M) y[m * N + n] = acc[r] + bias;
    }
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int M = x.size(0), K = x.size(1), N = weights.size(0);
  auto y = torch::empty({M, N}, x.options());
  dim3 block(TILE, ROWS);
  dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
  linear_kernel<<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weights.data_ptr<float>(), biases.data_ptr<float>(),
      y.data_ptr<float>(), M, N, K);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "linear forward"); }
