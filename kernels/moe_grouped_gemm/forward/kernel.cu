// Linear layer of a mixture of experts. The first kernel lists each expert's pairs of token and
// choice, the second multiplies them (wgmma for 16 bits, TF32 in three parts for float32), the
// third adds up a token's products by its gates. Sums are in a fixed order, so they are always the
// same. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

constexpr int kGroupThreads = 512;
constexpr int kCombineThreads = 128;
constexpr int kWarp = 32;
constexpr int kRowBytes = 128;  // bytes of a row of a stage: 64 numbers of 16 bits, 32 of 32 bits
constexpr int kAlign = 1024;    // the swizzle's period in shared memory
constexpr unsigned kAll = 0xffffffff;

// Programmatic dependent launch: what the kernel before wrote may be read after WaitForPrevious.
__device__ __forceinline__ void WaitForPrevious() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ __forceinline__ void LetNextStart() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// A block has one expert. Its pairs (token * top_k + j) follow those of the experts before it.
// Their order among themselves may vary, but no result depends on it.
__global__ void __launch_bounds__(kGroupThreads)
    Group(const int64_t* __restrict__ chosen, int* __restrict__ grouped, int* __restrict__ ends,
          int pairs) {
  __shared__ int next;
  LetNextStart();
  const int64_t expert = blockIdx.x;
  const int lane = threadIdx.x % kWarp;
  if (threadIdx.x == 0) next = 0;
  __syncthreads();
  unsigned before = 0;
  for (int64_t pair = threadIdx.x; pair < pairs; pair += kGroupThreads) {
    const int64_t its = chosen[pair];
    before += (its >= 0 && its < expert) ? 1u : 0u;
  }
  before = __reduce_add_sync(kAll, before);
  if (lane == 0) atomicAdd(&next, static_cast<int>(before));
  __syncthreads();
  for (int64_t first = static_cast<int>(threadIdx.x) - lane; first < pairs;
       first += kGroupThreads) {
    const int64_t pair = first + lane;
    const bool here = pair < pairs && chosen[pair] == expert;
    const unsigned mask = __ballot_sync(kAll, here);
    if (mask == 0) continue;
    int base = 0;
    if (lane == 0) base = atomicAdd(&next, __popc(mask));
    base = __shfl_sync(kAll, base, 0);
    if (here) grouped[base + __popc(mask & ((1u << lane) - 1))] = static_cast<int>(pair);
  }
  __syncthreads();
  if (threadIdx.x == 0) ends[expert] = next;
}

// 16 bytes from global to shared memory; of their elements, the first `left` exist.
template <typename T, bool kVector>
__device__ __forceinline__ void Load(unsigned char* to, const T* from, int left, const T* safe) {
  if constexpr (kVector) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = left > 0 ? 16 : 0;
    const T* source = left > 0 ? from : safe;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(address),
                 "l"(source), "r"(bytes)
                 : "memory");
  } else if constexpr (sizeof(T) == 4) {
    const unsigned* raw = reinterpret_cast<const unsigned*>(from);
    uint4 value;
    value.x = left > 0 ? raw[0] : 0u;
    value.y = left > 1 ? raw[1] : 0u;
    value.z = left > 2 ? raw[2] : 0u;
    value.w = left > 3 ? raw[3] : 0u;
    *reinterpret_cast<uint4*>(to) = value;
  } else {
    const unsigned short* raw = reinterpret_cast<const unsigned short*>(from);
    unsigned word[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned low = left > 2 * i ? raw[2 * i] : 0u;
      const unsigned high = left > 2 * i + 1 ? raw[2 * i + 1] : 0u;
      word[i] = low | (high << 16);
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(word[0], word[1], word[2], word[3]);
  }
}

__device__ __forceinline__ void LoadMatrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ void MultiplyTf32(float* d, const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A float32 number as a TF32 head, rounded to nearest, and an exact remainder of 12 bits.
__device__ __forceinline__ void Split(unsigned value, unsigned& head, unsigned& tail) {
  head = (value + 0x1000u) & 0xffffe000u;
  tail = __float_as_uint(__uint_as_float(value) - __uint_as_float(head));
}

// wgmma's description of a tile in shared memory: rows of 128 bytes along the features, 8 rows a
// kilobyte, 16-byte pieces swizzled by the row.
__device__ __forceinline__ uint64_t Describe(unsigned address) {
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) | (uint64_t{1} << 16) |
         (uint64_t{kAlign >> 4} << 32) | (uint64_t{1} << 62);
}

// Keeps the compiler from moving uses of the sums across the start or the end of a wgmma.
template <int kCount>
__device__ __forceinline__ void Pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// d += a b: 64 outputs by kN tokens, 16 features.
template <typename T, int kN>
__device__ __forceinline__ void MultiplyAsync(float (&d)[kN / 2], uint64_t a, uint64_t b) {
  constexpr bool kHalf = std::is_same<T, at::Half>::value;
  if constexpr (kN == 16 && kHalf) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7}, "
        "%8, %9, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7])
        : "l"(a), "l"(b), "r"(1));
  } else if constexpr (kN == 16 && !kHalf) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7}, "
        "%8, %9, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7])
        : "l"(a), "l"(b), "r"(1));
  } else if constexpr (kN == 32 && kHalf) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b), "r"(1));
  } else if constexpr (kN == 32 && !kHalf) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b), "r"(1));
  } else if constexpr (kN == 64 && kHalf) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(1));
  } else if constexpr (kN == 64 && !kHalf) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(1));
  } else if constexpr (kN == 128 && kHalf) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
          "+f"(d[63])
        : "l"(a), "l"(b), "r"(1));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
          "+f"(d[63])
        : "l"(a), "l"(b), "r"(1));
  }
}

// What a block does: up to kTokens pairs of one expert, and 64 outputs for each group of 4 warps.
template <typename T>
struct Task {
  const T* x;
  const T* weights;
  const T* w_row;    // the first weights that this thread loads
  const int* pairs;  // the block's pairs
  float* products;
  unsigned char* shared;
  int64_t first_column;
  int64_t columns_left;  // outputs from this thread's first loaded one on
  int rows;              // pairs of the block
  int top_k;
  int in;
  int out;
  int blocks;  // stages in all
  int load_row;
  int load_k;
  int load_offset;
};

template <typename T, int kGroups, int kStages, bool kVector>
__device__ __forceinline__ void LoadWeights(const Task<T>& task, int block) {
  constexpr int kDepth = kRowBytes / static_cast<int>(sizeof(T));
  constexpr int kLoadRows = 16 * kGroups;
  constexpr int kStageBytes = 64 * kGroups * kRowBytes;
  const int left = task.in - block * kDepth - task.load_k;
  const T* from = task.w_row + static_cast<int64_t>(block) * kDepth;
  unsigned char* to = task.shared + block % kStages * kStageBytes + task.load_offset;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    Load<T, kVector>(to + i * kLoadRows * kRowBytes,
                     from + static_cast<int64_t>(i * kLoadRows) * task.in,
                     i * kLoadRows < task.columns_left ? left : 0, task.weights);
  }
}

// The block's work when it has at most kN pairs.
template <typename T, int kGroups, int kTokens, int kStages, bool kVector, int kN>
__device__ __forceinline__ void Run(const Task<T>& task) {
  static_assert(kN <= kTokens && kN % 16 == 0, "the stages hold kTokens rows of x");
  constexpr int kDepth = kRowBytes / static_cast<int>(sizeof(T));
  constexpr int kLoadRows = 16 * kGroups;
  constexpr int kLoads = (kN + kLoadRows - 1) / kLoadRows;
  constexpr int kWBytes = 64 * kGroups * kRowBytes;
  constexpr int kXBytes = kTokens * kRowBytes;
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;

  const T* x_row[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int row = task.load_row + i * kLoadRows;
    x_row[i] =
        row < task.rows
            ? task.x + static_cast<int64_t>(task.pairs[row] / task.top_k) * task.in + task.load_k
            : nullptr;
  }
  auto load_x = [&](int block) {
    const int left = task.in - block * kDepth - task.load_k;
    unsigned char* to =
        task.shared + kStages * kWBytes + block % kStages * kXBytes + task.load_offset;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (task.load_row + i * kLoadRows < kN) {
        const bool exists = x_row[i] != nullptr;
        Load<T, kVector>(to + i * kLoadRows * kRowBytes,
                         exists ? x_row[i] + static_cast<int64_t>(block) * kDepth : task.x,
                         exists ? left : 0, task.x);
      }
    }
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < task.blocks) load_x(s);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  const unsigned w_base = static_cast<unsigned>(__cvta_generic_to_shared(task.shared));
  const unsigned x_base = w_base + kStages * kWBytes;
  // d[4 n + 2 h + c]: output 16 warp + 8 h + lane / 4, pair 8 n + lane % 4 * 2 + c
  float d[kN / 2];
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) d[i] = 0.0f;

  for (int block = 0; block < task.blocks; ++block) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    if constexpr (sizeof(T) == 2) {  // wgmma reads through the asynchronous proxy
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    const int next = block + kStages - 1;
    if (next < task.blocks) {
      LoadWeights<T, kGroups, kStages, kVector>(task, next);
      load_x(next);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    const unsigned w_stage = w_base + block % kStages * kWBytes;
    const unsigned x_stage = x_base + block % kStages * kXBytes;
    if constexpr (sizeof(T) == 2) {
      const uint64_t a = Describe(w_stage + warp / 4 * (64 * kRowBytes));
      const uint64_t b = Describe(x_stage);
      Pin(d);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        MultiplyAsync<T, kN>(d, a + step * 2, b + step * 2);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      Pin(d);
    } else {
      const int swizzle = lane & 7;
      const unsigned a_row = w_stage + (warp * 16 + (lane & 15)) * kRowBytes;
      const unsigned b_row = x_stage + ((lane & 7) + ((lane >> 4) << 3)) * kRowBytes;
      float part[kN / 2];  // sums of this stage only: tensor cores do not round to nearest
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) part[i] = 0.0f;
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        unsigned a[4], a_head[4], a_tail[4];
        LoadMatrices(a, a_row + (((step * 2 + (lane >> 4)) ^ swizzle) << 4));
#pragma unroll
        for (int e = 0; e < 4; ++e) Split(a[e], a_head[e], a_tail[e]);
#pragma unroll
        for (int j = 0; j < kN / 16; ++j) {
          unsigned b[4], head[4], tail[4];
          LoadMatrices(
              b, b_row + j * 16 * kRowBytes + (((step * 2 + ((lane >> 3) & 1)) ^ swizzle) << 4));
#pragma unroll
          for (int e = 0; e < 4; ++e) Split(b[e], head[e], tail[e]);
          MultiplyTf32(part + j * 8, a_tail, head[0], head[1]);
          MultiplyTf32(part + j * 8 + 4, a_tail, head[2], head[3]);
          MultiplyTf32(part + j * 8, a_head, tail[0], tail[1]);
          MultiplyTf32(part + j * 8 + 4, a_head, tail[2], tail[3]);
          MultiplyTf32(part + j * 8, a_head, head[0], head[1]);
          MultiplyTf32(part + j * 8 + 4, a_head, head[2], head[3]);
        }
      }
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) d[i] += part[i];
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");

  const int64_t column = task.first_column + warp * 16 + lane / 4;
#pragma unroll
  for (int n = 0; n < kN / 8; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int row = n * 8 + lane % 4 * 2 + c;
      if (row < task.rows) {
        float* to = task.products + static_cast<int64_t>(task.pairs[row]) * task.out;
        if (column < task.out) to[column] = d[n * 4 + c];
        if (column + 8 < task.out) to[column + 8] = d[n * 4 + 2 + c];
      }
    }
  }
}

// products[pair] = weights[expert] @ x[token]. Slots below `experts` are the first kTokens pairs of
// each expert, the other slots are the further pairs of experts that have more.
template <typename T, int kGroups, int kTokens, int kStages, bool kVector>
__global__ void __launch_bounds__(kGroups * 128,
                                  !kVector                                              ? 1
                                  : (kGroups == 1 || (sizeof(T) == 2 && kTokens == 64)) ? 3
                                                                                        : 2)
    Product(const T* __restrict__ x, const T* __restrict__ weights, const int* grouped,
            const int* ends, float* products, int top_k, int experts, int slots, int in, int out) {
  constexpr int kElements = 16 / static_cast<int>(sizeof(T));
  constexpr int kDepth = kRowBytes / static_cast<int>(sizeof(T));
  extern __shared__ __align__(128) unsigned char raw_shared[];
  const unsigned misaligned =
      static_cast<unsigned>(__cvta_generic_to_shared(raw_shared)) & (kAlign - 1);
  const int thread = threadIdx.x;
  const int lane = thread % kWarp;
  const int slot = static_cast<int>(blockIdx.x % static_cast<unsigned>(slots));

  int expert = slot;
  int tile = 0;
  if (slot >= experts) {
    WaitForPrevious();
    const int wanted = slot - experts;
    int base = 0;
    expert = -1;
    for (int first = 0; first < experts; first += kWarp) {
      const int its = first + lane;
      int more = 0;
      if (its < experts) {
        const int count = ends[its] - (its > 0 ? ends[its - 1] : 0);
        more = count > 0 ? (count - 1) / kTokens : 0;
      }
      int total = more;
#pragma unroll
      for (int d = 1; d < kWarp; d *= 2) {
        const int other = __shfl_up_sync(kAll, total, d);
        if (lane >= d) total += other;
      }
      const unsigned mask = __ballot_sync(kAll, wanted < base + total);
      if (mask != 0) {
        const int found = __ffs(mask) - 1;
        const int before = __shfl_sync(kAll, total - more, found);
        expert = first + found;
        tile = wanted - base - before + 1;
        break;
      }
      base += __shfl_sync(kAll, total, kWarp - 1);
    }
    if (expert < 0) return;  // the same for all threads of the block
  }

  Task<T> task;
  task.x = x;
  task.weights = weights;
  task.products = products;
  task.shared = raw_shared + (misaligned != 0 ? kAlign - misaligned : 0);
  task.top_k = top_k;
  task.in = in;
  task.out = out;
  task.blocks = in > 0 ? (in - 1) / kDepth + 1 : 0;
  task.first_column =
      static_cast<int64_t>(blockIdx.x / static_cast<unsigned>(slots)) * (64 * kGroups);
  task.load_row = thread / 8;
  task.load_k = thread % 8 * kElements;
  task.load_offset = task.load_row * kRowBytes + (((thread % 8) ^ (task.load_row & 7)) << 4);
  task.columns_left = out - task.first_column - task.load_row;
  task.w_row = weights +
               (static_cast<int64_t>(expert) * out + task.first_column + task.load_row) * in +
               task.load_k;
  // The weights do not depend on the kernel before.
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < task.blocks) LoadWeights<T, kGroups, kStages, kVector>(task, s);
  }
  if (slot < experts) WaitForPrevious();
  LetNextStart();

  const int begin = (expert > 0 ? ends[expert - 1] : 0) + tile * kTokens;
  task.pairs = grouped + begin;
  task.rows = min(ends[expert] - begin, kTokens);
  if (task.rows <= 0) {  // the same for all threads of the block
    asm volatile("cp.async.wait_all;" ::: "memory");
    return;
  }
  if constexpr (kTokens == 16) {
    Run<T, kGroups, kTokens, kStages, kVector, 16>(task);
  } else if constexpr (kTokens == 64) {
    if (task.rows <= 16) {
      Run<T, kGroups, kTokens, kStages, kVector, 16>(task);
    } else if (task.rows <= 32) {
      Run<T, kGroups, kTokens, kStages, kVector, 32>(task);
    } else {
      Run<T, kGroups, kTokens, kStages, kVector, 64>(task);
    }
  } else {
    static_assert(kTokens == 16 || kTokens == 64 || kTokens == 128, "tokens of a block");
    if (task.rows <= 32) {
      Run<T, kGroups, kTokens, kStages, kVector, 32>(task);
    } else if (task.rows <= 64) {
      Run<T, kGroups, kTokens, kStages, kVector, 64>(task);
    } else {
      Run<T, kGroups, kTokens, kStages, kVector, 128>(task);
    }
  }
}

template <typename T>
struct alignas(4 * sizeof(T)) Four {
  T value[4];
};

// A block has one token. Like the reference, a choice that is no expert adds nothing.
template <typename T, int kWide>
__global__ void __launch_bounds__(kCombineThreads)
    Combine(const float* products, const float* gates, const int64_t* chosen, T* y, int top_k,
            int experts, int out) {
  WaitForPrevious();
  const int64_t token = blockIdx.x;
  const int64_t first_pair = token * top_k;
  int64_t column = (static_cast<int64_t>(blockIdx.y) * kCombineThreads + threadIdx.x) * kWide;
  for (; column < out; column += static_cast<int64_t>(gridDim.y) * kCombineThreads * kWide) {
    float sum[kWide];
#pragma unroll
    for (int e = 0; e < kWide; ++e) sum[e] = 0.0f;
#pragma unroll 4
    for (int j = 0; j < top_k; ++j) {
      const int64_t pair = first_pair + j;
      const int64_t expert = chosen[pair];
      const bool exists = expert >= 0 && expert < experts;
      const float gate = exists ? gates[pair] : 0.0f;
      const float* from = products + pair * out + column;
      if constexpr (kWide == 4) {
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (exists) v = *reinterpret_cast<const float4*>(from);
        sum[0] += gate * v.x;
        sum[1] += gate * v.y;
        sum[2] += gate * v.z;
        sum[3] += gate * v.w;
      } else {
        float v = 0.0f;
        if (exists) v = *from;
        sum[0] += gate * v;
      }
    }
    T* to = y + token * out + column;
    if constexpr (kWide == 4) {
      Four<T> four;
#pragma unroll
      for (int e = 0; e < 4; ++e) four.value[e] = static_cast<T>(sum[e]);
      *reinterpret_cast<Four<T>*>(to) = four;
    } else {
      *to = static_cast<T>(sum[0]);
    }
  }
}

// early: the kernel may start before the one before it has ended (it calls WaitForPrevious).
template <typename... P, typename... A>
static void Start(void (*kernel)(P...), dim3 grid, int threads, int bytes, bool early, A... args) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...));
}

struct Sizes {
  int64_t pairs, top_k, experts;
  int in, out;
};

template <typename T, int kGroups, int kTokens, int kStages, bool kVector>
static void StartProduct(const T* x, const T* weights, const int* grouped, const int* ends,
                         float* products, const Sizes& sizes) {
  constexpr int kBytes = kStages * (64 * kGroups + kTokens) * kRowBytes + kAlign;
  const int64_t slots = sizes.experts + sizes.pairs / kTokens;
  const int64_t blocks = slots * ((sizes.out - 1) / (64 * kGroups) + 1);
  TORCH_CHECK(blocks <= 0x7fffffff, "too many tiles");
  void (*kernel)(const T*, const T*, const int*, const int*, float*, int, int, int, int, int) =
      Product<T, kGroups, kTokens, kStages, kVector>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  Start(kernel, dim3(static_cast<unsigned>(blocks)), kGroups * 128, kBytes, true, x, weights,
        grouped, ends, products, static_cast<int>(sizes.top_k), static_cast<int>(sizes.experts),
        static_cast<int>(slots), sizes.in, sizes.out);
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights,
                   const torch::Tensor& chosen, const torch::Tensor& gates, torch::Tensor& y) {
  const int64_t pairs = chosen.numel(), top_k = chosen.size(1), experts = weights.size(0);
  const int64_t tokens = x.size(0);
  TORCH_CHECK(pairs < 0x7fff0000 && top_k < 0x7fff0000 && experts < 0x7fff0000 &&
                  tokens < 0x7fff0000 && x.size(1) < 0x7fff0000 && weights.size(1) < 0x7fff0000,
              "sizes must fit in 31 bits");
  const int in = static_cast<int>(x.size(1)), out = static_cast<int>(weights.size(1));
  auto grouped = torch::empty({pairs}, chosen.options().dtype(torch::kInt32));
  auto ends = torch::empty({experts}, chosen.options().dtype(torch::kInt32));
  auto products = torch::empty({pairs, out}, gates.options());
  if (pairs > 0) {
    Start(Group, dim3(static_cast<unsigned>(experts)), kGroupThreads, 0, false,
          chosen.data_ptr<int64_t>(), grouped.data_ptr<int>(), ends.data_ptr<int>(),
          static_cast<int>(pairs));
    const T* xs = x.data_ptr<T>();
    const T* ws = weights.data_ptr<T>();
    const int* list = grouped.data_ptr<int>();
    const int* last = ends.data_ptr<int>();
    float* to = products.data_ptr<float>();
    const Sizes sizes = {pairs, top_k, experts, in, out};
    const bool vector =
        ((reinterpret_cast<uintptr_t>(xs) | reinterpret_cast<uintptr_t>(ws)) & 15) == 0 &&
        in % (16 / static_cast<int>(sizeof(T))) == 0;
    const int64_t mean = (pairs - 1) / experts + 1;
    const int64_t column_tiles = (static_cast<int64_t>(out) - 1) / 128 + 1;
    const bool few = (experts + pairs / 64) * column_tiles < 200;
    if (!vector) {
      StartProduct<T, 2, 64, 3, false>(xs, ws, list, last, to, sizes);
    } else if (mean <= 8 || tokens <= 16) {
      StartProduct<T, 1, 16, 5, true>(xs, ws, list, last, to, sizes);
    } else if (few) {
      StartProduct<T, 1, 64, 4, true>(xs, ws, list, last, to, sizes);
    } else {
      if constexpr (sizeof(T) == 2) {
        if (mean > 72 && (experts + pairs / 256) * column_tiles >= 200) {
          StartProduct<T, 2, 128, 3, true>(xs, ws, list, last, to, sizes);
        } else {
          StartProduct<T, 2, 64, 3, true>(xs, ws, list, last, to, sizes);
        }
      } else {
        StartProduct<T, 2, 64, 3, true>(xs, ws, list, last, to, sizes);
      }
    }
  }
  const int wide = out % 4 == 0 ? 4 : 1;
  const int64_t parts =
      std::min<int64_t>((static_cast<int64_t>(out) - 1) / (kCombineThreads * wide) + 1, 65535);
  const dim3 grid(static_cast<unsigned>(tokens), static_cast<unsigned>(parts));
  void (*combine)(const float*, const float*, const int64_t*, T*, int, int, int) = Combine<T, 1>;
  if (wide == 4) combine = Combine<T, 4>;
  Start(combine, grid, kCombineThreads, 0, pairs > 0, products.data_ptr<float>(),
        gates.data_ptr<float>(), chosen.data_ptr<int64_t>(), y.data_ptr<T>(),
        static_cast<int>(top_k), static_cast<int>(experts), out);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor chosen,
                      torch::Tensor gates) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 3 && x.size(1) == weights.size(2),
              "x must be (tokens, features), weights (experts, outputs, features)");
  TORCH_CHECK(chosen.dim() == 2 && chosen.size(0) == x.size(0) && chosen.sizes() == gates.sizes(),
              "chosen and gates must be (tokens, top_k)");
  TORCH_CHECK(chosen.numel() == 0 || weights.size(0) > 0, "there must be an expert to choose");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type(), "x and weights must be of one type");
  TORCH_CHECK(chosen.scalar_type() == torch::kInt64 && gates.scalar_type() == torch::kFloat32,
              "chosen must be int64, gates float32");
  x = x.contiguous();
  weights = weights.contiguous();
  chosen = chosen.contiguous();
  gates = gates.contiguous();
  auto y = torch::empty({x.size(0), weights.size(1)}, x.options());
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, weights, chosen, gates, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, weights, chosen, gates, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, chosen, gates, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Mixture of experts"); }
