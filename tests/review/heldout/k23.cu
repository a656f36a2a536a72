// Skinny GEMM: a block per output feature, its warps share out the reduction dimension.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

constexpr int kWarps = 4;
constexpr int kTileRows = 8;

template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
gemv_tile_kernel(const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ y, int rows,
                 int k_size, int n_size) {
  __shared__ float partial[kWarps][kTileRows];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int col = blockIdx.x;
  const int row0 = blockIdx.y * kTileRows;
  const int count = min(kTileRows, rows - row0);

  const T* wp = w + static_cast<int64_t>(col) * k_size;
  const T* xp = x + static_cast<int64_t>(row0) * k_size;

  const int span = k_size / kWarps;
  const int k_begin = warp * span;
  const int k_end = min(k_begin + span, k_size);

  float acc[kTileRows] = {};
  for (int k = k_begin + lane; k < k_end; k += 32) {
    const float wv = static_cast<float>(wp[k]);
#pragma unroll
    for (int r = 0; r < kTileRows; ++r) {
      if (r < count) {
        acc[r] = fmaf(wv, static_cast<float>(xp[static_cast<int64_t>(r) * k_size + k]), acc[r]);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) {
      acc[r] += __shfl_xor_sync(0xffffffffu, acc[r], mask);
    }
    if (lane == 0) partial[warp][r] = acc[r];
  }
  __syncthreads();

  if (threadIdx.x < count) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += partial[i][threadIdx.x];
    y[static_cast<int64_t>(row0 + threadIdx.x) * n_size + col] = static_cast<T>(sum);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights) {
  x = x.contiguous();
  weights = weights.contiguous();
  const int rows = x.size(0), k_size = x.size(1), n_size = weights.size(0);
  auto y = torch::empty({rows, n_size}, x.options());
  if (y.numel() == 0) return y;
  const dim3 grid(n_size, (rows + kTileRows - 1) / kTileRows);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "gemv_tile", [&] {
    gemv_tile_kernel<scalar_t><<<grid, kWarps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), weights.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), rows, k_size,
        n_size);
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "skinny gemm"); }
