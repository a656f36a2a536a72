// task: attention_half
// settings: single
// note: wgmma with A in registers; products overlap the softmax, and their sums are scaled between
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kQueries = 64, kKeys = 32, kSize = 64, kStages = 2;

__device__ uint32_t Shared(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ void Init(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(Shared(barrier)));
}
__device__ void Wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra AGAIN;\n}" ::"r"(Shared(barrier)),
      "r"(parity)
      : "memory");
}
// Loads `rows` rows; `to` has place for exactly these.
__device__ void Load(void* to, const CUtensorMap* map, uint64_t* barrier, int row, int rows) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%2], [%3, {0, "
      "%4}], [%0];" ::"r"(Shared(barrier)),
      "r"(rows * kSize * 2), "r"(Shared(to)), "l"(map), "r"(row)
      : "memory");
}

// Rows of 128 bytes, swizzled: groups of eight rows are 1024 bytes apart.
__device__ uint64_t Matrix(const void* p) {
  return (Shared(p) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
// s = a * b or s += a * b; both have rows along k.
__device__ void Scores(float (&s)[16], uint64_t a, uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
      "%10, %11, %12, %13, %14, %15}, %16, %17, adds, 1, 1, 0, 0;\n}"
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]),
        "+f"(s[7]), "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]),
        "+f"(s[14]), "+f"(s[15])
      : "l"(a), "l"(b), "r"(adds));
}
// o += a * b; a is in registers, b has rows along n.
__device__ void Weigh(float (&o)[32], const uint32_t* a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
      "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
      "%28, %29, %30, %31}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
      : "+f"(o[0]), "+f"(o[1]), "+f"(o[2]), "+f"(o[3]), "+f"(o[4]), "+f"(o[5]), "+f"(o[6]),
        "+f"(o[7]), "+f"(o[8]), "+f"(o[9]), "+f"(o[10]), "+f"(o[11]), "+f"(o[12]), "+f"(o[13]),
        "+f"(o[14]), "+f"(o[15]), "+f"(o[16]), "+f"(o[17]), "+f"(o[18]), "+f"(o[19]), "+f"(o[20]),
        "+f"(o[21]), "+f"(o[22]), "+f"(o[23]), "+f"(o[24]), "+f"(o[25]), "+f"(o[26]), "+f"(o[27]),
        "+f"(o[28]), "+f"(o[29]), "+f"(o[30]), "+f"(o[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ void FenceRegisters() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void Commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// The compiler moves no access to these registers across this place.
__device__ void Pin(float& value) { asm volatile("" : "+f"(value)::"memory"); }
__device__ void Pin(uint32_t& value) { asm volatile("" : "+r"(value)::"memory"); }
template <class T, int kCount>
__device__ void Pin(T (&values)[kCount]) {
  for (T& value : values) Pin(value);
}

// Online softmax of two rows: turns scores into weights, and returns how to scale earlier sums.
struct Softmax {
  float highest[2] = {-INFINITY, -INFINITY}, sum[2] = {};

  __device__ void Update(const float (&s)[16], uint32_t (&weights)[8], float (&scale)[2]) {
    for (int r = 0; r < 2; ++r) {
      float most = highest[r];
      for (int i = 0; i < 16; ++i) {
        if (i / 2 % 2 == r) most = fmaxf(most, s[i]);
      }
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      scale[r] = expf((highest[r] - most) / 8);
      highest[r] = most;
      sum[r] *= scale[r];
    }
    for (int i = 0; i < 8; ++i) {
      const int r = i % 2;
      const half2 pair = __floats2half2_rn(expf((s[2 * i] - highest[r]) / 8),
                                           expf((s[2 * i + 1] - highest[r]) / 8));
      sum[r] += __low2float(pair) + __high2float(pair);
      weights[i] = reinterpret_cast<const uint32_t&>(pair);
    }
  }
};

struct Tiles {
  alignas(1024) half q[kQueries * kSize], k[kStages][kKeys * kSize], v[kStages][kKeys * kSize];
  uint64_t q_full, k_full[kStages], v_full[kStages];
};

// The products with V overlap the scores and the softmax of the next keys.
__global__ void Attention(const __grid_constant__ CUtensorMap of_q,
                          const __grid_constant__ CUtensorMap of_k,
                          const __grid_constant__ CUtensorMap of_v, half* out, int keys) {
  __shared__ Tiles tiles;
  const int count = keys / kKeys;
  const auto load_k = [&](int i) {
    if (threadIdx.x == 0 && i < count) {
      Load(tiles.k[i % kStages], &of_k, &tiles.k_full[i % kStages], i * kKeys, kKeys);
    }
  };
  const auto load_v = [&](int i) {
    if (threadIdx.x == 0 && i < count) {
      Load(tiles.v[i % kStages], &of_v, &tiles.v_full[i % kStages], i * kKeys, kKeys);
    }
  };
  if (threadIdx.x == 0) {
    Init(&tiles.q_full);
    for (int i = 0; i < kStages; ++i) Init(&tiles.k_full[i]), Init(&tiles.v_full[i]);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    Load(tiles.q, &of_q, &tiles.q_full, blockIdx.x * kQueries, kQueries);
  }
  for (int i = 0; i < kStages; ++i) load_k(i), load_v(i);
  __syncthreads();

  float s[16] = {}, o[32] = {}, scale[2];
  uint32_t weights[8], next[8];
  Softmax softmax;
  const auto score = [&](int i) {
    Wait(&tiles.k_full[i % kStages], i / kStages % 2);
    FenceRegisters();
    for (int j = 0; j < kSize / 16; ++j) {
      Scores(s, Matrix(&tiles.q[j * 16]), Matrix(&tiles.k[i % kStages][j * 16]), j);
    }
    Commit();
  };
  Wait(&tiles.q_full, 0);
  score(0);
  WaitForProducts<0>();
  Pin(s);
  load_k(kStages);
  softmax.Update(s, weights, scale);
  for (int i = 0; i < count; ++i) {
    if (i + 1 < count) score(i + 1);
    Wait(&tiles.v_full[i % kStages], i / kStages % 2);
    FenceRegisters();
    for (int j = 0; j < kKeys / 16; ++j) {
      Weigh(o, &weights[4 * j], Matrix(&tiles.v[i % kStages][j * 16 * kSize]));
    }
    Commit();
    if (i + 1 < count) {
      WaitForProducts<1>();
      Pin(s);
      softmax.Update(s, next, scale);
    }
    WaitForProducts<0>();
    Pin(o), Pin(weights);
    load_k(i + 1 + kStages), load_v(i + kStages);
    if (i + 1 < count) {
      for (int j = 0; j < 32; ++j) o[j] *= scale[j / 2 % 2];
      for (int j = 0; j < 8; ++j) weights[j] = next[j];
    }
  }
  for (float& sum : softmax.sum) {
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
  }
  const int row = blockIdx.x * kQueries + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  for (int j = 0; j < 32; j += 2) {
    const int r = j / 2 % 2;
    *reinterpret_cast<half2*>(out + (row + 8 * r) * kSize + j / 4 * 8 + threadIdx.x % 4 * 2) =
        __floats2half2_rn(o[j] / softmax.sum[r], o[j + 1] / softmax.sum[r]);
  }
}

CUtensorMap MapOf(const torch::Tensor& t, uint32_t rows) {
  CUtensorMap map;
  const cuuint64_t dims[] = {kSize, (cuuint64_t)t.size(0)}, strides[] = {kSize * 2};
  const cuuint32_t box[] = {kSize, rows}, steps[] = {1, 1};
  const CUresult error =
      cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, t.data_ptr(), dims, strides,
                             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(error == CUDA_SUCCESS, "no tensor map");
  return map;
}

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  TORCH_CHECK(q.size(0) % kQueries == 0 && k.size(0) % kKeys == 0 && q.size(1) == kSize, "sizes");
  auto out = torch::empty_like(q);
  Attention<<<q.size(0) / kQueries, 128>>>(MapOf(q, kQueries), MapOf(k, kKeys), MapOf(v, kKeys),
                                           reinterpret_cast<half*>(out.data_ptr<at::Half>()),
                                           (int)k.size(0));
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
