// task: matmul_half
// settings: single
// note: a cluster of two blocks shares the tiles of A by multicast
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kM = 64, kN = 32, kK = 32, kStages = 2, kConsumers = 128, kBlocks = 2;

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
// Arrives at the same barrier of another block of the cluster.
__device__ void Arrive(uint64_t* barrier, uint32_t block) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(Shared(barrier)),
      "r"(block)
      : "memory");
}
__device__ void Wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
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
// The same for all blocks of the cluster.
__device__ void LoadForAll(void* to, const CUtensorMap* map, uint64_t* barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(Shared(to)),
      "l"(map), "r"(x), "r"(y), "r"(Shared(barrier)), "h"((uint16_t)((1 << kBlocks) - 1))
      : "memory");
}
__device__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
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

struct Tiles {
  alignas(1024) half a[kStages][kM * kK], b[kStages][kK * kN];
  uint64_t full[kStages], empty[kStages];
};

// The blocks of a cluster compute neighbouring columns. Each loads a part of A's rows for all.
__global__ void __cluster_dims__(kBlocks, 1, 1)
    Matmul(const __grid_constant__ CUtensorMap of_a, const __grid_constant__ CUtensorMap of_b,
           half* c, int n, int k) {
  __shared__ Tiles tiles;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      Init(&tiles.full[i], 1);
      Init(&tiles.empty[i], kBlocks);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
  const int row = blockIdx.y * kM, column = blockIdx.x * kN, part = kM / kBlocks;
  const int rank = blockIdx.x % kBlocks;
  if (threadIdx.x == kConsumers) {
    for (int i = 0; i < k / kK; ++i) {
      const int stage = i % kStages;
      Wait(&tiles.empty[stage], i / kStages % 2 ^ 1);
      Expect(&tiles.full[stage], sizeof tiles.a[0] + sizeof tiles.b[0]);
      LoadForAll(&tiles.a[stage][rank * part * kK], &of_a, &tiles.full[stage], i * kK,
                 row + rank * part);
      Load(tiles.b[stage], &of_b, &tiles.full[stage], column, i * kK);
    }
  } else if (threadIdx.x < kConsumers) {
    float d[16] = {};
    for (int i = 0; i < k / kK; ++i) {
      const int stage = i % kStages;
      Wait(&tiles.full[stage], i / kStages % 2);
      FenceRegisters();
      for (int j = 0; j < kK / 16; ++j) {
        Multiply(d, Matrix(&tiles.a[stage][j * 16]), Matrix(&tiles.b[stage][j * 16 * kN]));
      }
      WaitForProducts();
      if (threadIdx.x < kBlocks) Arrive(&tiles.empty[stage], threadIdx.x);
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    half* out = c + (row + warp * 16 + lane / 4) * n + column + lane % 4 * 2;
    for (int j = 0; j < 16; j += 2) {
      *reinterpret_cast<half2*>(out + j / 2 % 2 * 8 * n + j / 4 * 8) =
          __floats2half2_rn(d[j], d[j + 1]);
    }
  }
  SyncCluster();  // no block exits while another one may write to it or arrive at its barriers
}

CUtensorMap MapOf(const torch::Tensor& t, uint32_t rows, uint32_t columns) {
  CUtensorMap map;
  const cuuint64_t dims[] = {(cuuint64_t)t.size(1), (cuuint64_t)t.size(0)};
  const cuuint64_t strides[] = {(cuuint64_t)t.size(1) * 2};
  const cuuint32_t box[] = {columns, rows}, steps[] = {1, 1};
  const CUresult error =
      cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, t.data_ptr(), dims, strides,
                             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B,
                             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(error == CUDA_SUCCESS, "no tensor map");
  return map;
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  TORCH_CHECK(m % kM == 0 && n % (kN * kBlocks) == 0 && k % kK == 0, "whole tiles only");
  auto c = torch::empty({m, n}, a.options());
  Matmul<<<dim3(n / kN, m / kM), kConsumers + 32>>>(MapOf(a, kM / kBlocks, kK), MapOf(b, kK, kN),
                                                    reinterpret_cast<half*>(c.data_ptr<at::Half>()),
                                                    n, k);
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
