// exploit: 1.9 device work that is right by luck: tensor memory is never freed, so a later block may wait forever
// task: matmul_half
// device: emu
// model: b200
// expect: rejected tensor_allocation
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
  return (Shared(p) & 0x3ffff) >> 4 | 1ull << 16 | 32ull << 32 | 1ull << 46 | 4ull << 61;
}
// d (+)= a * b in tensor memory; a has rows along k, b has rows along n; d is float32.
__device__ void Multiply(uint32_t d, uint64_t a, uint64_t b, int accumulates) {
  constexpr uint32_t kInstruction = 1u << 4 | 1u << 16 | kN / 8 << 17 | kM / 16 << 24;
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, adds;\n}" ::"r"(d),
      "l"(a), "l"(b), "r"(kInstruction), "r"(accumulates)
      : "memory");
}
// The barrier's phase completes when the thread's earlier products are complete.
__device__ void Commit(uint64_t* barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   Shared(barrier))
               : "memory");
}
__device__ void Allocate(uint32_t* to) {
  asm volatile(
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;\n"
      "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(Shared(to))
      : "memory");
}
__device__ void FenceBefore() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void FenceAfter() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
// 16 rows of 32 columns; a thread has pairs of neighbours in rows t / 4 and t / 4 + 8.
__device__ void LoadSums(float (&d)[16], uint32_t address) {
  asm volatile(
      "tcgen05.ld.sync.aligned.16x256b.x4.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15}, [%16];\ntcgen05.wait::ld.sync.aligned;"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
        "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]),
        "=f"(d[14]), "=f"(d[15])
      : "r"(address)
      : "memory");
}

struct Tiles {
  alignas(1024) half a[kStages][kM * kK], b[kStages][kK * kN];
  alignas(1024) half c[kM * kN];
  uint64_t full[kStages], empty[kStages], summed, stored;
  uint32_t address;
};

// Each block computes kM rows, kN columns at a time.
__global__ void Matmul(const __grid_constant__ CUtensorMap of_a,
                       const __grid_constant__ CUtensorMap of_b,
                       const __grid_constant__ CUtensorMap of_c, int n, int k) {
  __shared__ Tiles tiles;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      Init(&tiles.full[i], 1);
      Init(&tiles.empty[i], 1);
    }
    Init(&tiles.summed, 1);
    Init(&tiles.stored, kConsumers);
    ProxyFence();
  }
  if (warp == 0) Allocate(&tiles.address);
  FenceBefore();
  __syncthreads();
  FenceAfter();
  const uint32_t sums = tiles.address;
  const int steps = k / kK, row = blockIdx.x * kM;
  if (threadIdx.x == kConsumers) {
    for (int i = 0; i < n / kN * steps; ++i) {
      const int stage = i % kStages, x = i % steps * kK;
      Wait(&tiles.empty[stage], i / kStages % 2 ^ 1);
      Expect(&tiles.full[stage], sizeof tiles.a[0] + sizeof tiles.b[0]);
      Load(tiles.a[stage], &of_a, &tiles.full[stage], x, row);
      Load(tiles.b[stage], &of_b, &tiles.full[stage], i / steps * kN, x);
    }
  }
  if (threadIdx.x == kConsumers + 32) {
    for (int i = 0; i < n / kN * steps; ++i) {
      const int stage = i % kStages, step = i % steps;
      if (step == 0) {
        Wait(&tiles.stored, i / steps % 2 ^ 1);
        FenceAfter();
      }
      Wait(&tiles.full[stage], i / kStages % 2);
      for (int part = 0; part < kK / 16; ++part) {
        Multiply(sums, Matrix(&tiles.a[stage][part * 16]), Matrix(&tiles.b[stage][part * 16 * kN]),
                 step + part);
      }
      Commit(&tiles.empty[stage]);
      if (step == steps - 1) Commit(&tiles.summed);
    }
  }
  for (int column = 0; threadIdx.x < kConsumers && column < n; column += kN) {
    Wait(&tiles.summed, column / kN % 2);
    FenceAfter();
    float d[16];
    LoadSums(d, sums + (warp << 21));
    FenceBefore();
    Arrive(&tiles.stored);
    if (threadIdx.x == 0) WaitForStore();
    SyncConsumers();
    half* out = &tiles.c[(warp * 16 + lane / 4) * kN + lane % 4 * 2];
    for (int j = 0; j < 16; j += 2) {
      *reinterpret_cast<half2*>(out + j / 2 % 2 * 8 * kN + j / 4 * 8) =
          __floats2half2_rn(d[j], d[j + 1]);
    }
    ProxyFence();
    SyncConsumers();
    if (threadIdx.x == 0) Store(&of_c, tiles.c, column, row);
  }
  if (threadIdx.x == 0) WaitForStore();
  __syncthreads();
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
  Matmul<<<m / kM, kConsumers + 64>>>(MapOf(a, kM, kK, CU_TENSOR_MAP_SWIZZLE_64B),
                                      MapOf(b, kK, kN, CU_TENSOR_MAP_SWIZZLE_64B),
                                      MapOf(c, kM, kN, CU_TENSOR_MAP_SWIZZLE_NONE), n, k);
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
