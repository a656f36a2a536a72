// task: matmul_half
// settings: single
// note: TMA, a ring of mbarriers and wgmma; one thread releases a buffer for its warpgroup; TMA stores; maps in a structure
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kM = 64, kN = 32, kK = 32, kStages = 2, kConsumers = 128;

__device__ uint32_t Shared(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ void Init(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(Shared(barrier)), "r"(count));
}
__device__ void Expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Shared(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(Shared(barrier)) : "memory");
}
__device__ void Wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra AGAIN;\n}" ::"r"(Shared(barrier)),
      "r"(parity)
      : "memory");
}
__device__ void Load(void* to, const CUtensorMap* map, uint64_t* barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(Shared(to)),
      "l"(map), "r"(x), "r"(y), "r"(Shared(barrier))
      : "memory");
}
__device__ void Store(const CUtensorMap* map, const void* from, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
      "cp.async.bulk.commit_group;" ::"l"(map),
      "r"(x), "r"(y), "r"(Shared(from))
      : "memory");
}
__device__ void WaitForStore() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ void ProxyFence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void SyncConsumers() { asm volatile("bar.sync 1, 128;" ::: "memory"); }

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

struct Tiles {
  alignas(1024) half a[kStages][kM * kK], b[kStages][kK * kN];
  alignas(1024) half c[kM * kN];
  uint64_t full[kStages], empty[kStages];
};

struct Operands {
  int k;
  CUtensorMap a, b;
};

// Each block computes kM rows, kN columns at a time.
__global__ void Matmul(int n, const __grid_constant__ Operands in,
                       const __grid_constant__ CUtensorMap of_c) {
  __shared__ Tiles tiles;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      Init(&tiles.full[i], 1);
      Init(&tiles.empty[i], 1);
    }
    ProxyFence();
  }
  __syncthreads();
  const int steps = in.k / kK, row = blockIdx.x * kM;
  if (threadIdx.x == kConsumers) {
    for (int i = 0; i < n / kN * steps; ++i) {
      const int stage = i % kStages, x = i % steps * kK;
      Wait(&tiles.empty[stage], i / kStages % 2 ^ 1);
      Expect(&tiles.full[stage], sizeof tiles.a[0] + sizeof tiles.b[0]);
      Load(tiles.a[stage], &in.a, &tiles.full[stage], x, row);
      Load(tiles.b[stage], &in.b, &tiles.full[stage], i / steps * kN, x);
    }
  }
  if (threadIdx.x >= kConsumers) return;
  for (int i = 0, column = 0; column < n; column += kN) {
    float d[16] = {};
    for (int step = 0; step < steps; ++step, ++i) {
      const int stage = i % kStages;
      Wait(&tiles.full[stage], i / kStages % 2);
      FenceRegisters();
      for (int part = 0; part < kK / 16; ++part) {
        Multiply(d, Matrix(&tiles.a[stage][part * 16]), Matrix(&tiles.b[stage][part * 16 * kN]));
      }
      WaitForProducts();
      if (threadIdx.x == 0) Arrive(&tiles.empty[stage]);
    }
    if (threadIdx.x == 0) WaitForStore();
    SyncConsumers();
    half* out = &tiles.c[(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4) * kN + threadIdx.x % 4 * 2];
    for (int j = 0; j < 16; j += 2) {
      *reinterpret_cast<half2*>(out + j / 2 % 2 * 8 * kN + j / 4 * 8) =
          __floats2half2_rn(d[j], d[j + 1]);
    }
    ProxyFence();
    SyncConsumers();
    if (threadIdx.x == 0) Store(&of_c, tiles.c, column, row);
  }
  if (threadIdx.x == 0) WaitForStore();
}

CUtensorMap MapOf(const torch::Tensor& t, uint32_t rows, uint32_t columns,
                  CUtensorMapSwizzle swizzle) {
  CUtensorMap map;
  const cuuint64_t dims[] = {(cuuint64_t)t.size(1), (cuuint64_t)t.size(0)};
  const cuuint64_t strides[] = {(cuuint64_t)t.size(1) * 2};
  const cuuint32_t box[] = {columns, rows}, steps[] = {1, 1};
  const CUresult error =
      cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, t.data_ptr(), dims, strides,
                             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(error == CUDA_SUCCESS, "no tensor map");
  return map;
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  TORCH_CHECK(m % kM == 0 && n % kN == 0 && k % kK == 0, "whole tiles only");
  auto c = torch::empty({m, n}, a.options());
  const Operands in = {k, MapOf(a, kM, kK, CU_TENSOR_MAP_SWIZZLE_64B),
                       MapOf(b, kK, kN, CU_TENSOR_MAP_SWIZZLE_64B)};
  Matmul<<<m / kM, kConsumers + 32>>>(n, in, MapOf(c, kM, kN, CU_TENSOR_MAP_SWIZZLE_NONE));
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
