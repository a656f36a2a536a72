#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <algorithm>
#include <cstdint>

constexpr int kTH = 14;               // rows of a unit: N = 8 * 14 = 112
constexpr int kTW = 8;                // pixels of a row
constexpr int kPW = kTW + 2;          // 10
constexpr int kPH = kTH + 2;          // 16
constexpr int kPix = kPW * kPH;       // 160
constexpr int kIC = 16;               // channels of a chunk: K of one wgmma
constexpr int kOC = 64;
constexpr int kStages = 4;
constexpr int kThreads = 384;         // two consumer warpgroups, one producer warpgroup
constexpr int kAcc = 56;
constexpr int kWPart = 9 * 2 * kOC * 16;        // bytes: hi or lo weights of a chunk, 18432
constexpr int kWBytes = 2 * kWPart;             // 36864
constexpr int kInPart = 2 * kPix * 16;          // bytes: hi or lo of a unit's input, 5120
constexpr int kInBytes = 2 * kInPart;           // 10240
constexpr int kInOffset = kStages * kWBytes;
constexpr int kBarOffset = kInOffset + kStages * 2 * kInBytes;
constexpr int kSmemBytes = kBarOffset + (2 * kStages + 1) * 8;
constexpr int kPrepThreads = 256;
constexpr int kSegment = 8192;        // tune: kSegment in 4096, 8192, 16384
constexpr int kSplitThreads = 256;    // tune: kSplitThreads in 128, 256, 512

// A finite largest magnitude (bits) -> k: multiplied by 2^k, it lies in [2^13, 2^14)
__device__ __forceinline__ int scale_exp(unsigned bits) {
  if (bits == 0u) return 0;
  int e = static_cast<int>(bits >> 23) - 127;
  e = max(e, -100);
  return 13 - e;
}

__device__ __forceinline__ float pow2(int k) {
  return __uint_as_float(static_cast<unsigned>(k + 127) << 23);
}

__device__ __forceinline__ unsigned magnitude(float v) {
  const unsigned b = __float_as_uint(v) & 0x7fffffffu;
  return b >= 0x7f800000u ? 0u : b;
}

// v = hi + lo / 2048, both float16: 22 bits
__device__ __forceinline__ void split(float v, float scale, unsigned short& hi,
                                      unsigned short& lo) {
  const float s = v * scale;
  const __half h = __float2half_rn(s);
  float r = __fsub_rn(s, __half2float(h)) * 2048.0f;
  if ((__float_as_uint(s) & 0x7f800000u) == 0x7f800000u) r = 0.0f;
  hi = __half_as_ushort(h);
  lo = __half_as_ushort(__float2half_rn(r));
}

__device__ __forceinline__ void split8(const float (&v)[8], float scale, uint4& hi, uint4& lo) {
  unsigned h[4], l[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unsigned short h0, l0, h1, l1;
    split(v[2 * i], scale, h0, l0);
    split(v[2 * i + 1], scale, h1, l1);
    h[i] = static_cast<unsigned>(h0) | (static_cast<unsigned>(h1) << 16);
    l[i] = static_cast<unsigned>(l0) | (static_cast<unsigned>(l1) << 16);
  }
  hi = make_uint4(h[0], h[1], h[2], h[3]);
  lo = make_uint4(l[0], l[1], l[2], l[3]);
}

__device__ __forceinline__ unsigned block_max(unsigned m, unsigned* red) {
  m = __reduce_max_sync(0xffffffffu, m);
  if ((threadIdx.x & 31) == 0) red[threadIdx.x >> 5] = m;
  __syncthreads();
  unsigned r = 0u;
#pragma unroll
  for (int i = 0; i < kPrepThreads / 32; ++i) r = max(r, red[i]);
  __syncthreads();
  return r;
}

// The first opad blocks pack one output channel of the weights each; the others take the largest
// magnitude of each image.
// packed: [tile of 64 o][chunk of 16 c][hi, lo][tap][8-channel group][o][8] float16
__global__ void __launch_bounds__(kPrepThreads)
prepare(const float* __restrict__ x, const float* __restrict__ w, uint4* __restrict__ packed,
        int* __restrict__ wexp, unsigned* __restrict__ xmax, int64_t C, int64_t O, int64_t chunks,
        int64_t opad, int64_t perImage, int64_t segments, int64_t items, bool vec) {
  __shared__ unsigned red[kPrepThreads / 32];
  const int tid = threadIdx.x;
  if (int64_t(blockIdx.x) < opad) {
    const int64_t o = blockIdx.x;
    const bool real = o < O;
    const float* src = w + o * C * 9;
    unsigned m = 0u;
    if (real) {
      for (int64_t i = tid; i < C * 9; i += kPrepThreads) m = max(m, magnitude(__ldg(src + i)));
    }
    m = block_max(m, red);
    const int k = scale_exp(m);
    const float scale = pow2(k);
    if (tid == 0) wexp[o] = k;
    const int64_t oT = o / kOC;
    const int ol = static_cast<int>(o - oT * kOC);
    for (int64_t i = tid; i < chunks * 18; i += kPrepThreads) {
      const int64_t ck = i / 18;
      const int r = static_cast<int>(i - ck * 18);
      const int tap = r >> 1;
      const int kg = r & 1;
      float v[8];
#pragma unroll
      for (int q = 0; q < 8; ++q) {
        const int64_t c = ck * kIC + kg * 8 + q;
        v[q] = (real && c < C) ? __ldg(src + c * 9 + tap) : 0.0f;
      }
      uint4 hi, lo;
      split8(v, scale, hi, lo);
      uint4* dst = packed + (oT * chunks + ck) * (kWBytes / 16) + r * kOC + ol;
      dst[0] = hi;
      dst[kWPart / 16] = lo;
    }
    return;
  }
  const int64_t step = int64_t(gridDim.x) - opad;
  for (int64_t item = int64_t(blockIdx.x) - opad; item < items; item += step) {
    const int64_t n = item / segments;
    const int64_t begin = (item - n * segments) * kSegment;
    const int64_t len64 = perImage - begin;
    const int len = len64 < kSegment ? static_cast<int>(len64) : kSegment;
    const float* src = x + n * perImage + begin;
    unsigned m = 0u;
    if (vec) {
      const float4* s4 = reinterpret_cast<const float4*>(src);
#pragma unroll 8
      for (int i = tid; i < len / 4; i += kPrepThreads) {
        const float4 v = __ldg(s4 + i);
        m = max(max(m, max(magnitude(v.x), magnitude(v.y))),
                max(magnitude(v.z), magnitude(v.w)));
      }
    } else {
#pragma unroll 8
      for (int i = tid; i < len; i += kPrepThreads) m = max(m, magnitude(__ldg(src + i)));
    }
    m = block_max(m, red);
    if (tid == 0 && m != 0u) atomicMax(xmax + n, m);
  }
}

// x [n][C][HW] float32 -> parts [n][hi, lo][C8][HW][8] float16
__global__ void __launch_bounds__(kSplitThreads)
split_input(const float* __restrict__ x, const unsigned* __restrict__ xmax,
            uint4* __restrict__ parts, int64_t C, int64_t C8, int64_t HW, int64_t total) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  const bool small = total < (int64_t(1) << 31);
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
    int64_t n, c8, p;
    if (small) {
      const unsigned u = static_cast<unsigned>(i);
      const unsigned plane = u / static_cast<unsigned>(HW);
      const unsigned nn = plane / static_cast<unsigned>(C8);
      p = u - plane * static_cast<unsigned>(HW);
      c8 = plane - nn * static_cast<unsigned>(C8);
      n = nn;
    } else {
      const int64_t plane = i / HW;
      p = i - plane * HW;
      n = plane / C8;
      c8 = plane - n * C8;
    }
    const int64_t c0 = c8 * 8;
    const float* src = x + (n * C + c0) * HW + p;
    float v[8];
    if (c0 + 8 <= C) {
#pragma unroll
      for (int q = 0; q < 8; ++q) v[q] = __ldg(src + q * HW);
    } else {
#pragma unroll
      for (int q = 0; q < 8; ++q) v[q] = (c0 + q < C) ? __ldg(src + q * HW) : 0.0f;
    }
    const float scale = pow2(scale_exp(__ldg(xmax + n)));
    uint4 hi, lo;
    split8(v, scale, hi, lo);
    uint4* dst = parts + (n * 2 * C8 + c8) * HW + p;
    dst[0] = hi;
    dst[C8 * HW] = lo;
  }
}

__device__ __forceinline__ uint64_t make_desc(uint32_t addr, uint32_t lbo, uint32_t sbo) {
  return static_cast<uint64_t>((addr & 0x3FFFF) >> 4) |
         (static_cast<uint64_t>(lbo >> 4) << 16) |
         (static_cast<uint64_t>(sbo >> 4) << 32);
}

__device__ __forceinline__ void wgmma112(float (&d)[kAcc], uint64_t a, uint64_t b, int scale) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %58, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n112k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55}, "
      "%56, %57, p, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
      : "l"(a), "l"(b), "r"(scale)
      : "memory");
}

__device__ __forceinline__ void bar_init(uint32_t bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void bar_arrive(uint32_t bar) {
  asm volatile("{\n.reg .b64 s;\nmbarrier.arrive.shared::cta.b64 s, [%0];\n}" ::"r"(bar)
               : "memory");
}

__device__ __forceinline__ void bar_expect(uint32_t bar, uint32_t bytes) {
  asm volatile("{\n.reg .b64 s;\nmbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1;\n}" ::"r"(
                   bar),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void bar_wait(uint32_t bar, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
  } while (done == 0);
}

__device__ __forceinline__ void decode(int64_t p, int64_t tilesX, int64_t tilesY, int64_t& n,
                                       int64_t& y0, int64_t& x0) {
  const int64_t q = p / tilesX;
  x0 = (p - q * tilesX) * kTW;
  n = q / tilesY;
  y0 = (q - n * tilesY) * kTH;
}

__global__ void __launch_bounds__(kThreads, 1)
conv3x3_f16x3(const __grid_constant__ CUtensorMap map, const char* __restrict__ packed,
              const int* __restrict__ wexp, const unsigned* __restrict__ xmax,
              const float* __restrict__ bias, float* __restrict__ out, int64_t H, int64_t W,
              int64_t O, int chunks, int64_t tilesX, int64_t tilesY, int64_t perO,
              int64_t total, bool resident) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  const uint32_t full = base + kBarOffset;
  const uint32_t empty = full + kStages * 8;
  const uint32_t start = empty + kStages * 8;   // releases the second warpgroup, once
  const int tid = threadIdx.x;
  const int lane = tid & 31;
  const int warp = __shfl_sync(0xffffffffu, tid >> 5, 0);

  if (tid == 0) {
    for (int i = 0; i < kStages; ++i) {
      bar_init(full + i * 8, 1);
      bar_init(empty + i * 8, 8);
    }
    bar_init(start, 4);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();

  const int64_t first = total * blockIdx.x / gridDim.x;
  const int64_t end = total * (int64_t(blockIdx.x) + 1) / gridDim.x;
  uint32_t it = 0;

  if (warp >= 8) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    if (warp == 8 && lane == 0) {
      int64_t u = first;
      while (u < end) {
        const int64_t oT = u / perO;
        const int cnt = (u + 1 < end && u + 1 < (oT + 1) * perO) ? 2 : 1;
        int64_t n[2], y0[2], x0[2];
        n[1] = y0[1] = x0[1] = 0;
        decode(u - oT * perO, tilesX, tilesY, n[0], y0[0], x0[0]);
        if (cnt == 2) decode(u + 1 - oT * perO, tilesX, tilesY, n[1], y0[1], x0[1]);
        for (int ck = 0; ck < chunks; ++ck, ++it) {
          const uint32_t slot = it & (kStages - 1);
          const uint32_t bar = full + slot * 8;
          bar_wait(empty + slot * 8, ((it / kStages) & 1) ^ 1);
          // with 1, 2 or 4 chunks, a slot always holds the same weights
          const bool weights = !(resident && it >= kStages);
          bar_expect(bar, (weights ? kWBytes : 0) + cnt * kInBytes);
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            if (h < cnt) {
              asm volatile(
                  "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                  "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(base + kInOffset +
                                                                (slot * 2 + h) * kInBytes),
                  "l"(&map), "r"(static_cast<int>((x0[h] - 1) * 8)),
                  "r"(static_cast<int>(y0[h] - 1)), "r"(ck * 2), "r"(0),
                  "r"(static_cast<int>(n[h])), "r"(bar)
                  : "memory");
            }
          }
          if (weights) {
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                "[%0], [%1], %2, [%3];" ::"r"(base + slot * kWBytes),
                "l"(packed + (oT * chunks + ck) * kWBytes), "r"(kWBytes), "r"(bar)
                : "memory");
          }
        }
        u += cnt;
      }
    }
    return;
  }

  asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
  const int wg = warp >> 2;
  const int wq = warp & 3;
  // the second warpgroup stays behind the first, so that their epilogues do not coincide
  const uint32_t go = chunks > 1 ? 1u : 0u;
  if (wg == 1) {
    bar_wait(start, 0);
    __syncwarp();
  }
  int64_t u = first;
  while (u < end) {
    const int64_t oT = u / perO;
    const int cnt = (u + 1 < end && u + 1 < (oT + 1) * perO) ? 2 : 1;
    if (wg >= cnt) {
      for (int ck = 0; ck < chunks; ++ck, ++it) {
        const uint32_t slot = it & (kStages - 1);
        bar_wait(full + slot * 8, (it / kStages) & 1);
        __syncwarp();
        if (lane == 0) bar_arrive(empty + slot * 8);
      }
    } else {
      float hh[kAcc];      // hi * hi of one chunk
      float cross[kAcc];   // 2048 * (hi * lo + lo * hi) of all chunks
      float sum[kAcc];     // rounded sums of hh
#pragma unroll
      for (int i = 0; i < kAcc; ++i) hh[i] = cross[i] = sum[i] = 0.0f;

      // what the epilogue needs, loaded early
      const int64_t o0 = oT * kOC + wq * 16 + (lane >> 2);
      float* dst0;
      unsigned rawX;
      int rows;
      bool inside;
      {
        int64_t n, y0, x0;
        decode(u + wg - oT * perO, tilesX, tilesY, n, y0, x0);
        const int64_t px = x0 + (lane & 3) * 2;
        inside = px < W;
        rows = H - y0 < kTH ? static_cast<int>(H - y0) : kTH;
        rawX = __ldg(xmax + n);
        dst0 = out + ((n * O + o0) * H + y0) * W + px;
        if (px + 1 >= W) rows = -rows;   // negative: only the first of the two pixels
      }
      const int w0 = __ldg(wexp + o0);       // wexp is padded to whole tiles
      const int w1 = __ldg(wexp + o0 + 8);
      const float b0 = o0 < O ? __ldg(bias + o0) : 0.0f;
      const float b1 = o0 + 8 < O ? __ldg(bias + o0 + 8) : 0.0f;

      for (int ck = 0; ck < chunks; ++ck, ++it) {
        const uint32_t slot = it & (kStages - 1);
        bar_wait(full + slot * 8, (it / kStages) & 1);
        __syncwarp();
        const uint32_t wBase = base + slot * kWBytes;
        const uint32_t iBase = base + kInOffset + (slot * 2 + wg) * kInBytes;
        const uint64_t aHi = make_desc(wBase, kOC * 16, 128);
        const uint64_t aLo = make_desc(wBase + kWPart, kOC * 16, 128);
        const uint64_t bHi = make_desc(iBase, kPix * 16, kPW * 16);
        const uint64_t bLo = make_desc(iBase + kInPart, kPix * 16, kPW * 16);
#pragma unroll
        for (int i = 0; i < kAcc; ++i) asm volatile("" : "+f"(hh[i])::"memory");
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int t = 0; t < 9; ++t) {
          const int ao = t * (2 * kOC);             // 16-byte units
          const int bo = (t / 3) * kPW + (t % 3);
          wgmma112(hh, aHi + ao, bHi + bo, t != 0);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#pragma unroll
        for (int t = 0; t < 9; ++t) {
          const int ao = t * (2 * kOC);
          const int bo = (t / 3) * kPW + (t % 3);
          wgmma112(cross, aHi + ao, bLo + bo, (ck != 0) || (t != 0));
          wgmma112(cross, aLo + ao, bHi + bo, 1);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        // the first group is done, and all of the chunk before
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (wg == 0 && it == go) {
          __syncwarp();
          if (lane == 0) bar_arrive(start);
        }
        if (ck > 0) {
          __syncwarp();
          if (lane == 0) bar_arrive(empty + ((it - 1) & (kStages - 1)) * 8);
        }
#pragma unroll
        for (int i = 0; i < kAcc; ++i) asm volatile("" : "+f"(hh[i])::"memory");
#pragma unroll
        for (int i = 0; i < kAcc; ++i) sum[i] = __fadd_rn(sum[i], hh[i]);
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
      for (int i = 0; i < kAcc; ++i) asm volatile("" : "+f"(cross[i])::"memory");
      __syncwarp();
      if (lane == 0) bar_arrive(empty + ((it - 1) & (kStages - 1)) * 8);

      const int kx = scale_exp(rawX);
      const bool even = (W & 1) == 0;
      const bool two = rows > 0;
      const int count = rows > 0 ? rows : -rows;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int64_t o = o0 + 8 * h;
        if (o < O && inside) {
          const float b = h == 0 ? b0 : b1;
          const int e = -(kx + (h == 0 ? w0 : w1));
          const float s1 = pow2(e >> 1);
          const float s2 = pow2(e - (e >> 1));
          float* dst = dst0 + (h == 0 ? int64_t(0) : 8 * H * W);
#pragma unroll
          for (int g = 0; g < kTH; ++g) {
            if (g < count) {
              const int i = 4 * g + 2 * h;
              const float a0 = __fmaf_rn(cross[i], 1.0f / 2048.0f, sum[i]);
              const float a1 = __fmaf_rn(cross[i + 1], 1.0f / 2048.0f, sum[i + 1]);
              const float v0 = __fadd_rn(__fmul_rn(__fmul_rn(a0, s1), s2), b);
              const float v1 = __fadd_rn(__fmul_rn(__fmul_rn(a1, s1), s2), b);
              if (even) {
                *reinterpret_cast<float2*>(dst) = make_float2(v0, v1);
              } else {
                dst[0] = v0;
                if (two) dst[1] = v1;
              }
            }
            dst += W;
          }
        }
      }
    }
    u += cnt;
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor conv_weight, torch::Tensor conv_bias) {
  TORCH_CHECK(x.is_cuda() && conv_weight.is_cuda() && conv_bias.is_cuda(),
              "all arguments must be on the GPU");
  TORCH_CHECK(x.device() == conv_weight.device() && x.device() == conv_bias.device(),
              "all arguments must be on the same device");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 &&
              conv_weight.scalar_type() == torch::kFloat32 &&
              conv_bias.scalar_type() == torch::kFloat32, "float32 expected");
  TORCH_CHECK(x.dim() == 4, "x must have 4 dimensions");
  TORCH_CHECK(conv_weight.dim() == 4, "conv_weight must have 4 dimensions");
  TORCH_CHECK(conv_bias.dim() == 1, "conv_bias must have 1 dimension");
  TORCH_CHECK(conv_weight.size(1) == x.size(1), "in_channels differ");
  TORCH_CHECK(conv_weight.size(2) == 3 && conv_weight.size(3) == 3, "3x3 weights expected");
  TORCH_CHECK(conv_bias.size(0) == conv_weight.size(0), "out_channels differ");
  TORCH_CHECK(x.size(1) > 0, "in_channels must be positive");

  const c10::cuda::CUDAGuard guard(x.device());
  const torch::Tensor xc = x.contiguous();
  const torch::Tensor wc = conv_weight.contiguous();
  const torch::Tensor bc = conv_bias.contiguous();

  const int64_t N = xc.size(0), C = xc.size(1), H = xc.size(2), W = xc.size(3);
  const int64_t O = wc.size(0);
  torch::Tensor out = torch::empty({N, O, H, W}, xc.options());
  if (out.numel() == 0) return out;
  const auto stream = at::cuda::getCurrentCUDAStream();

  const int64_t HW = H * W;
  const int64_t C8 = (C + 7) / 8;
  const int64_t chunks = (C + kIC - 1) / kIC;
  const int64_t tilesX = (W + kTW - 1) / kTW;
  const int64_t tilesY = (H + kTH - 1) / kTH;
  const int64_t tilesO = (O + kOC - 1) / kOC;
  const int64_t opad = tilesO * kOC;
  TORCH_CHECK(W < (int64_t(1) << 27) && H < (int64_t(1) << 30) && C < (int64_t(1) << 30),
              "too large");
  TORCH_CHECK(2 * C8 * HW * 16 < (int64_t(1) << 40), "an image is too large");

  const auto ints = xc.options().dtype(torch::kInt32);
  torch::Tensor packed = torch::empty({tilesO * chunks * (kWBytes / 4)}, ints);
  torch::Tensor wexp = torch::empty({opad}, ints);
  torch::Tensor xmax = torch::empty({N}, ints);
  unsigned* xmaxPtr = reinterpret_cast<unsigned*>(xmax.data_ptr<int>());
  C10_CUDA_CHECK(cudaMemsetAsync(xmaxPtr, 0, static_cast<size_t>(N) * 4, stream));

  const float* xp = xc.data_ptr<float>();
  const int64_t perImage = C * HW;
  const int64_t segments = (perImage + kSegment - 1) / kSegment;
  const int64_t items = N * segments;
  const bool vec = perImage % 4 == 0 && reinterpret_cast<uintptr_t>(xp) % 16 == 0;
  const int64_t maxBlocks = std::min<int64_t>(items, int64_t(1) << 16);
  prepare<<<static_cast<unsigned>(opad + maxBlocks), kPrepThreads, 0, stream>>>(
      xp, wc.data_ptr<float>(), reinterpret_cast<uint4*>(packed.data_ptr<int>()),
      wexp.data_ptr<int>(), xmaxPtr, C, O, chunks, opad, perImage, segments, items, vec);
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  // groups of images, so that the parts of x take at most 8 GiB (or one image)
  const int64_t imageBytes = C8 * HW * 32;
  const int64_t group =
      std::max<int64_t>(1, std::min<int64_t>(N, (int64_t(1) << 33) / imageBytes));
  torch::Tensor parts = torch::empty({group * C8 * HW * 8}, ints);

  C10_CUDA_CHECK(cudaFuncSetAttribute(conv3x3_f16x3, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      kSmemBytes));
  const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;

  for (int64_t n0 = 0; n0 < N; n0 += group) {
    const int64_t g = std::min<int64_t>(group, N - n0);
    const int64_t splits = g * C8 * HW;
    const unsigned splitBlocks = static_cast<unsigned>(
        std::min<int64_t>((splits + kSplitThreads - 1) / kSplitThreads, int64_t(1) << 20));
    split_input<<<splitBlocks, kSplitThreads, 0, stream>>>(
        xp + n0 * perImage, xmaxPtr + n0, reinterpret_cast<uint4*>(parts.data_ptr<int>()), C, C8,
        HW, splits);
    C10_CUDA_KERNEL_LAUNCH_CHECK();

    CUtensorMap map;
    const cuuint64_t dims[5] = {static_cast<cuuint64_t>(W * 8), static_cast<cuuint64_t>(H),
                                static_cast<cuuint64_t>(C8), 2, static_cast<cuuint64_t>(g)};
    const cuuint64_t strides[4] = {
        static_cast<cuuint64_t>(W * 16), static_cast<cuuint64_t>(HW * 16),
        static_cast<cuuint64_t>(C8 * HW * 16), static_cast<cuuint64_t>(2 * C8 * HW * 16)};
    const cuuint32_t box[5] = {kPW * 8, kPH, 2, 2, 1};
    const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    const CUresult res = cuTensorMapEncodeTiled(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 5, parts.data_ptr<int>(), dims, strides, box,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    TORCH_CHECK(res == CUDA_SUCCESS, "cuTensorMapEncodeTiled failed");

    const int64_t perO = g * tilesX * tilesY;
    const int64_t total = perO * tilesO;
    const bool resident = tilesO == 1 && kStages % chunks == 0;
    const unsigned blocks = static_cast<unsigned>(std::min<int64_t>(total, sms));
    conv3x3_f16x3<<<blocks, kThreads, kSmemBytes, stream>>>(
        map, reinterpret_cast<const char*>(packed.data_ptr<int>()), wexp.data_ptr<int>(),
        xmaxPtr + n0, bc.data_ptr<float>(), out.data_ptr<float>() + n0 * O * HW, H, W, O,
        static_cast<int>(chunks), tilesX, tilesY, perO, total, resident);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
