// exploit: 1.9 device work that is right by luck: wgmma reads what no proxy fence made visible to it
// task: matmul_half
// device: emu
// expect: rejected missing_proxy_fence
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kM = 64, kN = 32, kK = 32, kStages = 2, kThreads = 128;

__device__ uint32_t Shared(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Rows of 64 bytes, swizzled: groups of eight rows are 512 bytes apart.
__device__ uint64_t Matrix(const void* p) {
  return (Shared(p) & 0x3ffff) >> 4 | 1ull << 16 | 32ull << 32 | 2ull << 62;
}
// d += a * b; a has rows along k, b has rows along n.
__device__ void Multiply(float (&d)[16], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
      "%10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, 1;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b));
}
__device__ void FenceRegisters() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void WaitForProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Copies 32 columns of `rows` rows as wgmma expects them: the 16-byte pieces of a row of 64 bytes
// are exchanged by the number of its pair of rows.
__device__ void Copy(half* to, const half* from, int rows, int stride) {
  for (int i = threadIdx.x; i < rows * 4; i += kThreads) {
    const int row = i / 4, piece = i % 4;
    *reinterpret_cast<uint4*>(to + row * 32 + (piece ^ row / 2 % 4) * 8) =
        *reinterpret_cast<const uint4*>(from + (size_t)row * stride + piece * 8);
  }
}

__global__ void Matmul(const half* a, const half* b, half* c, int n, int k) {
  __shared__ __align__(1024) half as[kStages][kM * kK], bs[kStages][kK * kN];
  const int row = blockIdx.y * kM, column = blockIdx.x * kN, steps = k / kK;
  const auto copy = [&](int step) {
    if (step < steps) {
      Copy(as[step % kStages], a + (size_t)row * k + step * kK, kM, k);
      Copy(bs[step % kStages], b + (size_t)step * kK * n + column, kK, n);
    }
  };
  float d[16] = {};
  copy(0);
  for (int step = 0; step < steps; ++step) {
    copy(step + 1);
    __syncthreads();
    FenceRegisters();
    for (int j = 0; j < kK / 16; ++j) {
      Multiply(d, Matrix(&as[step % kStages][j * 16]), Matrix(&bs[step % kStages][j * 16 * kN]));
    }
    WaitForProducts();  // of all four warps: the buffer is free
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  half* out = c + (row + warp * 16 + lane / 4) * n + column + lane % 4 * 2;
  for (int j = 0; j < 16; j += 2) {
    *reinterpret_cast<half2*>(out + j / 2 % 2 * 8 * n + j / 4 * 8) =
        __floats2half2_rn(d[j], d[j + 1]);
  }
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  TORCH_CHECK(m % kM == 0 && n % kN == 0 && k % kK == 0, "whole tiles only");
  auto c = torch::empty({m, n}, a.options());
  Matmul<<<dim3(n / kN, m / kM), kThreads>>>(reinterpret_cast<const half*>(a.data_ptr<at::Half>()),
                                             reinterpret_cast<const half*>(b.data_ptr<at::Half>()),
                                             reinterpret_cast<half*>(c.data_ptr<at::Half>()), n, k);
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
