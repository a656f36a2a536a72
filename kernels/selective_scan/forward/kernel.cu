// Selective scan of Mamba. ChannelScan: lanes are channels, each thread has NS numbers of the state
// of one channel and goes through the tokens; softplus, loads, and the sums over the state are
// pipelined with it through shared memory. TimeScan: a warp has one channel, lanes are tokens.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>
#include <type_traits>

constexpr int kPoly = 1;        // tune: kPoly in 0, 1, 2, 3, 4
constexpr int kHalfCost = 115;  // tune: kHalfCost in 95, 115

constexpr int kThreads = 128;
constexpr int kChunk = 32;           // tokens between barriers
constexpr int kStride = kChunk + 4;  // floats of a row in shared memory
constexpr int kPadState = 16;
constexpr unsigned kAll = 0xffffffffu;
constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ float Ex2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

__device__ __forceinline__ float Rcp(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// 2^x without the special function unit
__device__ __forceinline__ float Ex2Fma(float x) {
  x = fminf(fmaxf(x, -126.0f), 128.0f);
  const float r = __fadd_rn(x, 12582912.0f);
  const float j = __fsub_rn(r, 12582912.0f);
  const float f = __fsub_rn(x, j);
  float p = 1.5403530393381608e-4f;
  p = fmaf(p, f, 1.3333558146428443e-3f);
  p = fmaf(p, f, 9.6181291076284770e-3f);
  p = fmaf(p, f, 5.5504108664821580e-2f);
  p = fmaf(p, f, 2.4022650695910072e-1f);
  p = fmaf(p, f, 6.9314718055994531e-1f);
  p = fmaf(p, f, 1.0f);
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(r) << 23));
}

// log(1 + e^s) = max(s, 0) + log1p(w), w = e^-|s|; log1p(w) = 2 atanh(w / (2 + w))
__device__ __forceinline__ float Softplus(float s) {
  const float w = Ex2(-fabsf(s) * kLog2e);
  const float z = w * Rcp(2.0f + w);
  const float q = z * z;
  float p = 1.0f / 13.0f;
  p = fmaf(p, q, 1.0f / 11.0f);
  p = fmaf(p, q, 1.0f / 9.0f);
  p = fmaf(p, q, 1.0f / 7.0f);
  p = fmaf(p, q, 1.0f / 5.0f);
  p = fmaf(p, q, 1.0f / 3.0f);
  const float t = z + z;
  return fmaxf(s, 0.0f) + fmaf(t * q, p, t);
}

// Numbers of type T are kept as they are in memory, in words of 32 bits.
template <typename T, int W>
__device__ __forceinline__ float Get(const unsigned (&w)[W], int i) {
  if constexpr (std::is_same<T, float>::value) {
    return __uint_as_float(w[i]);
  } else if constexpr (std::is_same<T, __nv_bfloat16>::value) {
    return (i & 1) ? __uint_as_float(w[i / 2] & 0xffff0000u) : __uint_as_float(w[i / 2] << 16);
  } else {
    return __half2float(
        __ushort_as_half(static_cast<unsigned short>((w[i / 2] >> (16 * (i & 1))) & 0xffffu)));
  }
}

// Puts numbers i and i + 1 (i is even).
template <typename T, int W>
__device__ __forceinline__ void PutTwo(unsigned (&w)[W], int i, float first, float second) {
  if constexpr (std::is_same<T, float>::value) {
    w[i] = __float_as_uint(first);
    w[i + 1] = __float_as_uint(second);
  } else if constexpr (std::is_same<T, __nv_bfloat16>::value) {
    const unsigned low = __bfloat16_as_ushort(__float2bfloat16_rn(first));
    const unsigned high = __bfloat16_as_ushort(__float2bfloat16_rn(second));
    w[i / 2] = low | (high << 16);
  } else {
    const unsigned low = __half_as_ushort(__float2half_rn(first));
    const unsigned high = __half_as_ushort(__float2half_rn(second));
    w[i / 2] = low | (high << 16);
  }
}

// Loads N numbers row[token ...]; zeros where there are none.
template <typename T, int N, bool VEC, int W>
__device__ __forceinline__ void Load(unsigned (&w)[W], const T* row, int64_t token, int64_t tokens,
                                     bool ok) {
  static_assert(W * 4 == N * static_cast<int>(sizeof(T)), "words");
#pragma unroll
  for (int i = 0; i < W; ++i) w[i] = 0u;
  if constexpr (VEC) {
    if (ok && token < tokens) {
      const T* from = row + token;
      if constexpr (W % 4 == 0) {
#pragma unroll
        for (int i = 0; i < W / 4; ++i) {
          const uint4 v = __ldg(reinterpret_cast<const uint4*>(from) + i);
          w[4 * i] = v.x;
          w[4 * i + 1] = v.y;
          w[4 * i + 2] = v.z;
          w[4 * i + 3] = v.w;
        }
      } else if constexpr (W == 2) {
        const uint2 v = __ldg(reinterpret_cast<const uint2*>(from));
        w[0] = v.x;
        w[1] = v.y;
      } else {
        static_assert(W % 4 == 0 || W <= 2, "words");
        w[0] = __ldg(reinterpret_cast<const unsigned*>(from));
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (ok && token + i < tokens) {
        if constexpr (sizeof(T) == 4) {
          w[i] = __ldg(reinterpret_cast<const unsigned*>(row) + token + i);
        } else {
          const unsigned v = __ldg(reinterpret_cast<const unsigned short*>(row) + token + i);
          w[i / 2] |= v << (16 * (i & 1));
        }
      }
    }
  }
}

template <typename T, int N, bool VEC, int W>
__device__ __forceinline__ void Store(const unsigned (&w)[W], T* row, int64_t token, int64_t tokens,
                                      bool ok) {
  if constexpr (VEC) {
    if (ok && token < tokens) {
      T* to = row + token;
      if constexpr (W % 4 == 0) {
#pragma unroll
        for (int i = 0; i < W / 4; ++i) {
          reinterpret_cast<uint4*>(to)[i] =
              make_uint4(w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]);
        }
      } else if constexpr (W == 2) {
        *reinterpret_cast<uint2*>(to) = make_uint2(w[0], w[1]);
      } else {
        *reinterpret_cast<unsigned*>(to) = w[0];
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (ok && token + i < tokens) {
        if constexpr (sizeof(T) == 4) {
          reinterpret_cast<unsigned*>(row)[token + i] = w[i];
        } else {
          reinterpret_cast<unsigned short*>(row)[token + i] =
              static_cast<unsigned short>((w[i / 2] >> (16 * (i & 1))) & 0xffffu);
        }
      }
    }
  }
}

template <int Q>
__device__ __forceinline__ void ReadShared(float (&v)[Q], const float* from) {
  if constexpr (Q == 4) {
    const float4 t = *reinterpret_cast<const float4*>(from);
    v[0] = t.x;
    v[1] = t.y;
    v[2] = t.z;
    v[3] = t.w;
  } else {
    static_assert(Q == 2, "2 or 4");
    const float2 t = *reinterpret_cast<const float2*>(from);
    v[0] = t.x;
    v[1] = t.y;
  }
}

template <int Q>
__device__ __forceinline__ void WriteShared(float* to, const float (&v)[Q]) {
  if constexpr (Q == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
  } else {
    static_assert(Q == 2, "2 or 4");
    *reinterpret_cast<float2*>(to) = make_float2(v[0], v[1]);
  }
}

template <int W>
__device__ __forceinline__ void Copy(unsigned (&to)[W], const unsigned (&from)[W]) {
#pragma unroll
  for (int i = 0; i < W; ++i) to[i] = from[i];
}

constexpr int SharedBytes(int ns) {
  return 2 * (2 * 8 * ns + 2 * kPadState + kThreads) * kStride * 4;
}

// A block has 8 * NS channels of a member of the batch; state is at most 16.
template <typename T, int NS, bool VEC>
__global__ void __launch_bounds__(kThreads, 3)
    ChannelScan(const T* __restrict__ u, const T* __restrict__ delta, const float* __restrict__ a,
                const T* __restrict__ b, const T* __restrict__ c, const float* __restrict__ skip,
                const float* __restrict__ delta_bias, T* __restrict__ y, int channels, int tokens,
                int state, unsigned channel_blocks) {
  constexpr int KC = 8 * NS;         // channels
  constexpr int G = kPadState / NS;  // parts of the state
  constexpr int P = kChunk / G;      // tokens of a chunk that a thread prepares and finishes
  constexpr int S = kChunk / 4;      // steps of 4 tokens
  constexpr int Q = P < 4 ? P : 4;   // of these at once
  constexpr int NQ = P / Q;
  constexpr int W = P * static_cast<int>(sizeof(T)) / 4;
  constexpr int BW = 8 * static_cast<int>(sizeof(T)) / 4;
  static_assert(KC * G == kThreads && P >= 2 && P <= S, "sizes");
  constexpr int kRowsD = KC * kStride;
  constexpr int kRowsB = 2 * kPadState * kStride;
  constexpr int kRowsY = kThreads * kStride;

  extern __shared__ float4 shared4[];
  float* const shared = reinterpret_cast<float*>(shared4);
  float* const sd = shared;           // steps d
  float* const sx = sd + 2 * kRowsD;  // d * u
  float* const sb = sx + 2 * kRowsD;  // B, then C
  float* const sy = sb + 2 * kRowsB;  // partial results

  const int tid = static_cast<int>(threadIdx.x);
  const unsigned member = blockIdx.x / channel_blocks;
  const int c0 = static_cast<int>(blockIdx.x - member * channel_blocks) * KC;

  // for the scan
  const int ch = tid % KC;
  const int g = tid / KC;
  float rate[NS];
  float h[NS];
#pragma unroll
  for (int j = 0; j < NS; ++j) {
    const int n = g * NS + j;
    rate[j] = (c0 + ch < channels && n < state)
                  ? a[static_cast<int64_t>(c0 + ch) * state + n] * kLog2e
                  : 0.0f;
    h[j] = 0.0f;
  }

  // for preparing and finishing
  const int pch = tid / G;
  const int ptok = (tid % G) * P;
  const bool pok = c0 + pch < channels;
  const int pchannel = pok ? c0 + pch : channels - 1;
  const float bias = delta_bias[pchannel];
  const float factor = skip[pchannel];
  const int64_t prow = (static_cast<int64_t>(member) * channels + pchannel) * tokens;
  const T* const urow = u + prow;
  const T* const drow = delta + prow;
  T* const yrow = y + prow;

  // for B and C
  const int brow = tid / 4;
  const int bcol = (tid % 4) * 8;
  const int bn = brow % kPadState;
  const bool bok = bn < state;
  const T* const bptr =
      (brow < kPadState ? b : c) + (static_cast<int64_t>(member) * state + (bok ? bn : 0)) * tokens;

  unsigned u_prev[W], u_cur[W], u_next[W], d_next[W], b_next[BW];

  auto put_b = [&](float* to) {
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = Get<T>(b_next, i);
    WriteShared(to + brow * kStride + bcol, v);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = Get<T>(b_next, 4 + i);
    WriteShared(to + brow * kStride + bcol + 4, v);
  };

  // zeros for the results before the first chunk
  for (int i = tid; i < 2 * kRowsY / 4; i += kThreads) {
    reinterpret_cast<float4*>(sy)[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }

  // the first chunk
  Load<T, P, VEC>(u_next, urow, ptok, tokens, pok);
  Load<T, P, VEC>(d_next, drow, ptok, tokens, pok);
  Load<T, 8, VEC>(b_next, bptr, bcol, tokens, bok);
#pragma unroll
  for (int q = 0; q < NQ; ++q) {
    float dq[Q], xq[Q];
#pragma unroll
    for (int k = 0; k < Q; ++k) {
      dq[k] = Softplus(Get<T>(d_next, q * Q + k) + bias);
      xq[k] = dq[k] * Get<T>(u_next, q * Q + k);
    }
    WriteShared(sd + pch * kStride + ptok + q * Q, dq);
    WriteShared(sx + pch * kStride + ptok + q * Q, xq);
  }
  put_b(sb);
  Copy(u_cur, u_next);
#pragma unroll
  for (int i = 0; i < W; ++i) u_prev[i] = 0u;
  Load<T, P, VEC>(u_next, urow, static_cast<int64_t>(kChunk) + ptok, tokens, pok);
  Load<T, P, VEC>(d_next, drow, static_cast<int64_t>(kChunk) + ptok, tokens, pok);
  Load<T, 8, VEC>(b_next, bptr, static_cast<int64_t>(kChunk) + bcol, tokens, bok);
  __syncthreads();

  // Sums the parts of Q tokens of the previous chunk.
  auto finish = [&](unsigned(&out)[W], const float* from, int q) {
    float acc[Q];
#pragma unroll
    for (int k = 0; k < Q; ++k) acc[k] = factor * Get<T>(u_prev, q * Q + k);
    float total[Q];
#pragma unroll
    for (int part = 0; part < G; ++part) {
      float v[Q];
      ReadShared(v, from + (part * KC + pch) * kStride + ptok + q * Q);
#pragma unroll
      for (int k = 0; k < Q; ++k) total[k] = part == 0 ? v[k] : total[k] + v[k];
    }
#pragma unroll
    for (int k = 0; k < Q; k += 2) {
      PutTwo<T>(out, q * Q + k, total[k] + acc[k], total[k + 1] + acc[k + 1]);
    }
  };

  auto iterate = [&](auto whole, int chunk) {
    constexpr bool kWhole = decltype(whole)::value;
    const int first = chunk * kChunk;
    const int now = chunk & 1;
    const int other = now ^ 1;
    const float* const d_now = sd + now * kRowsD + ch * kStride;
    const float* const x_now = sx + now * kRowsD + ch * kStride;
    const float* const b_now = sb + now * kRowsB + g * NS * kStride;
    const float* const c_now = b_now + kPadState * kStride;
    float* const y_now = sy + now * kRowsY + tid * kStride;
    const float* const y_other = sy + other * kRowsY;
    float* const d_other = sd + other * kRowsD + pch * kStride + ptok;
    float* const x_other = sx + other * kRowsD + pch * kStride + ptok;

    unsigned u_far[W], d_far[W], b_far[BW];
    if constexpr (kWhole) {
      const int64_t far = static_cast<int64_t>(first) + 2 * kChunk;
      Load<T, P, VEC>(u_far, urow, far + ptok, tokens, pok);
      Load<T, P, VEC>(d_far, drow, far + ptok, tokens, pok);
      Load<T, 8, VEC>(b_far, bptr, far + bcol, tokens, bok);
    }

    unsigned out[W];
    float dq[Q], xq[Q];
    float dv[4], xv[4];
    ReadShared(dv, d_now);
    ReadShared(xv, x_now);
#pragma unroll
    for (int s = 0; s < S; ++s) {
      float dn[4], xn[4];  // of the next step
      if (s + 1 < S) {
        ReadShared(dn, d_now + 4 * (s + 1));
        ReadShared(xn, x_now + 4 * (s + 1));
      }
      if (kWhole || first + 4 * s < tokens) {
        float sum[4];
#pragma unroll
        for (int j = 0; j < NS; ++j) {
          float bv[4], cv[4];
          ReadShared(bv, b_now + j * kStride + 4 * s);
          ReadShared(cv, c_now + j * kStride + 4 * s);
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            const float power = dv[k] * rate[j];
            const float decay = (NS == 4 && j == 0 && k < kPoly) ? Ex2Fma(power) : Ex2(power);
            h[j] = fmaf(decay, h[j], xv[k] * bv[k]);
            sum[k] = j == 0 ? h[j] * cv[k] : fmaf(h[j], cv[k], sum[k]);
          }
        }
        WriteShared(y_now + 4 * s, sum);
      }
      if constexpr (kWhole) {  // prepare the next chunk
#pragma unroll
        for (int i = 0; i < P; ++i) {
          if (i * (S / P) == s) {
            dq[i % Q] = Softplus(Get<T>(d_next, i) + bias);
            xq[i % Q] = dq[i % Q] * Get<T>(u_next, i);
            if (i % Q == Q - 1) {
              WriteShared(d_other + i / Q * Q, dq);
              WriteShared(x_other + i / Q * Q, xq);
            }
          }
        }
        if (s == 2) put_b(sb + other * kRowsB);
      }
#pragma unroll
      for (int q = 0; q < NQ; ++q) {  // finish the previous chunk
        if (q * (S / NQ) == s) {
          finish(out, y_other, q);
          if (q == NQ - 1) {
            Store<T, P, VEC>(out, yrow, static_cast<int64_t>(first) - kChunk + ptok, tokens,
                             pok && chunk > 0);
          }
        }
      }
      if (s + 1 < S) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          dv[k] = dn[k];
          xv[k] = xn[k];
        }
      }
    }
    __syncthreads();
    Copy(u_prev, u_cur);
    if constexpr (kWhole) {
      Copy(u_cur, u_next);
      Copy(u_next, u_far);
      Copy(d_next, d_far);
      Copy(b_next, b_far);
    }
  };

  const int whole_chunks = tokens / kChunk;
  const int chunks = (tokens + kChunk - 1) / kChunk;
#pragma unroll 1
  for (int chunk = 0; chunk < whole_chunks; ++chunk) iterate(std::true_type{}, chunk);
  if (whole_chunks < chunks) iterate(std::false_type{}, whole_chunks);

  // the last chunk
  unsigned out[W];
#pragma unroll
  for (int q = 0; q < NQ; ++q) finish(out, sy + ((chunks - 1) & 1) * kRowsY, q);
  Store<T, P, VEC>(out, yrow, static_cast<int64_t>(chunks - 1) * kChunk + ptok, tokens, pok);
}

// A warp has a channel of a member of the batch, and scans 256 tokens at once, 8 a lane. kOne: the
// state has one number, otherwise carry (rows, state) keeps it between the tokens.
template <typename T, bool kOne, bool VEC>
__global__ void __launch_bounds__(kThreads, (kOne && sizeof(T) == 2) ? 8 : 4)
    TimeScan(const T* __restrict__ u, const T* __restrict__ delta, const float* __restrict__ a,
             const T* __restrict__ b, const T* __restrict__ c, const float* __restrict__ skip,
             const float* __restrict__ delta_bias, float* carry, T* __restrict__ y, int64_t rows,
             int64_t channels, int64_t tokens, int64_t state) {
  constexpr int N = 8;
  constexpr int W = N * static_cast<int>(sizeof(T)) / 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const int64_t member = row / channels;
  const int64_t channel = row - member * channels;
  const float bias = delta_bias[channel];
  const float factor = skip[channel];
  const T* const urow = u + row * tokens;
  const T* const drow = delta + row * tokens;
  T* const yrow = y + row * tokens;
  const T* const bfirst = b + member * state * tokens;
  const T* const cfirst = c + member * state * tokens;
  const float* const rates = a + channel * state;
  float hold = 0.0f;
  const float only_rate = kOne ? rates[0] * kLog2e : 0.0f;

  unsigned u_next[W], d_next[W];
  Load<T, N, VEC>(u_next, urow, static_cast<int64_t>(lane) * N, tokens, true);
  Load<T, N, VEC>(d_next, drow, static_cast<int64_t>(lane) * N, tokens, true);
#pragma unroll 1
  for (int64_t first = 0; first < tokens; first += 32 * N) {
    const int64_t token = first + lane * N;
    float d[N], x[N], sum[N];
    float all = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float wide = Get<T>(u_next, i);
      d[i] = Softplus(Get<T>(d_next, i) + bias);
      x[i] = d[i] * wide;
      sum[i] = factor * wide;
      all += d[i];
    }
    Load<T, N, VEC>(u_next, urow, token + 32 * N, tokens, true);
    Load<T, N, VEC>(d_next, drow, token + 32 * N, tokens, true);

    const int64_t count = kOne ? 1 : state;
#pragma unroll 1
    for (int64_t n = 0; n < count; ++n) {
      const float rate = kOne ? only_rate : rates[n] * kLog2e;
      unsigned bw[W], cw[W];
      Load<T, N, VEC>(bw, bfirst + n * tokens, token, tokens, true);
      Load<T, N, VEC>(cw, cfirst + n * tokens, token, tokens, true);
      float decay[N], fed[N];
      float h = 0.0f;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        decay[i] = Ex2(d[i] * rate);
        fed[i] = x[i] * Get<T>(bw, i);
        h = i == 0 ? fed[i] : fmaf(decay[i], h, fed[i]);
      }
      float product = Ex2(all * rate);
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const float before = __shfl_up_sync(kAll, h, distance);
        const float times = __shfl_up_sync(kAll, product, distance);
        if (lane >= distance) {
          h = fmaf(product, before, h);
          product *= times;
        }
      }
      h = __shfl_up_sync(kAll, h, 1);
      product = __shfl_up_sync(kAll, product, 1);
      if (lane == 0) {
        h = 0.0f;
        product = 1.0f;
      }
      if (first > 0) {
        float start = hold;
        if constexpr (!kOne) {
          start = lane == 31 ? carry[row * state + n] : 0.0f;
          start = __shfl_sync(kAll, start, 31);
        }
        h = fmaf(product, start, h);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) {
        h = fmaf(decay[i], h, fed[i]);
        sum[i] = fmaf(h, Get<T>(cw, i), sum[i]);
      }
      if constexpr (kOne) {
        hold = __shfl_sync(kAll, h, 31);
      } else {
        if (lane == 31) carry[row * state + n] = h;
      }
    }
    unsigned out[W];
#pragma unroll
    for (int i = 0; i < N; i += 2) PutTwo<T>(out, i, sum[i], sum[i + 1]);
    Store<T, N, VEC>(out, yrow, token, tokens, true);
  }
}

template <typename T, int NS, bool VEC>
static void LaunchChannels(const torch::Tensor& u, const torch::Tensor& delta,
                           const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& c,
                           const torch::Tensor& skip, const torch::Tensor& delta_bias,
                           torch::Tensor& y) {
  const int64_t channel_blocks = (u.size(1) + 8 * NS - 1) / (8 * NS);
  const int64_t blocks = channel_blocks * u.size(0);
  TORCH_CHECK(blocks < (int64_t{1} << 31), "too many channels");
  constexpr int bytes = SharedBytes(NS);
  C10_CUDA_CHECK(cudaFuncSetAttribute(ChannelScan<T, NS, VEC>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  ChannelScan<T, NS, VEC>
      <<<static_cast<unsigned>(blocks), kThreads, bytes, at::cuda::getCurrentCUDAStream()>>>(
          static_cast<const T*>(u.data_ptr()), static_cast<const T*>(delta.data_ptr()),
          a.data_ptr<float>(), static_cast<const T*>(b.data_ptr()),
          static_cast<const T*>(c.data_ptr()), skip.data_ptr<float>(), delta_bias.data_ptr<float>(),
          static_cast<T*>(y.data_ptr()), static_cast<int>(u.size(1)), static_cast<int>(u.size(2)),
          static_cast<int>(a.size(1)), static_cast<unsigned>(channel_blocks));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T, bool kOne, bool VEC>
static void LaunchTime(const torch::Tensor& u, const torch::Tensor& delta, const torch::Tensor& a,
                       const torch::Tensor& b, const torch::Tensor& c, const torch::Tensor& skip,
                       const torch::Tensor& delta_bias, torch::Tensor& y) {
  const int64_t rows = u.size(0) * u.size(1);
  const int64_t blocks = (rows + kThreads / 32 - 1) / (kThreads / 32);
  TORCH_CHECK(blocks < (int64_t{1} << 31), "too many channels");
  torch::Tensor carry;
  float* carried = nullptr;
  if (!kOne) {
    carry = torch::empty({rows, a.size(1) > 0 ? a.size(1) : 1}, a.options());
    carried = carry.data_ptr<float>();
  }
  TimeScan<T, kOne, VEC>
      <<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          static_cast<const T*>(u.data_ptr()), static_cast<const T*>(delta.data_ptr()),
          a.data_ptr<float>(), static_cast<const T*>(b.data_ptr()),
          static_cast<const T*>(c.data_ptr()), skip.data_ptr<float>(), delta_bias.data_ptr<float>(),
          carried, static_cast<T*>(y.data_ptr()), rows, u.size(1), u.size(2), a.size(1));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T, bool VEC>
static void LaunchVec(const torch::Tensor& u, const torch::Tensor& delta, const torch::Tensor& a,
                      const torch::Tensor& b, const torch::Tensor& c, const torch::Tensor& skip,
                      const torch::Tensor& delta_bias, torch::Tensor& y) {
  const int64_t state = a.size(1);
  const bool small = u.size(2) < (int64_t{1} << 30) && u.size(1) < (int64_t{1} << 30);
  if (state == 1) {
    LaunchTime<T, true, VEC>(u, delta, a, b, c, skip, delta_bias, y);
  } else if (state <= 4 || state > kPadState || !small) {
    LaunchTime<T, false, VEC>(u, delta, a, b, c, skip, delta_bias, y);
  } else {
    // the time of the busiest SM
    const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    auto rounds = [&](int64_t channels) {
      const int64_t blocks = (u.size(1) + channels - 1) / channels * u.size(0);
      return (blocks + sms - 1) / sms;
    };
    const int64_t four = rounds(32) * 200;
    const int64_t two = rounds(16) * kHalfCost;
    const int64_t one = rounds(8) * 80;
    if (four <= two && four <= one) {
      LaunchChannels<T, 4, VEC>(u, delta, a, b, c, skip, delta_bias, y);
    } else if (two <= one) {
      LaunchChannels<T, 2, VEC>(u, delta, a, b, c, skip, delta_bias, y);
    } else {
      LaunchChannels<T, 1, VEC>(u, delta, a, b, c, skip, delta_bias, y);
    }
  }
}

template <typename T>
static void Launch(const torch::Tensor& u, const torch::Tensor& delta, const torch::Tensor& a,
                   const torch::Tensor& b, const torch::Tensor& c, const torch::Tensor& skip,
                   const torch::Tensor& delta_bias, torch::Tensor& y) {
  auto aligned = [](const torch::Tensor& x) {
    return reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
  };
  const bool vec =
      u.size(2) % 8 == 0 && aligned(u) && aligned(delta) && aligned(b) && aligned(c) && aligned(y);
  if (vec) {
    LaunchVec<T, true>(u, delta, a, b, c, skip, delta_bias, y);
  } else {
    LaunchVec<T, false>(u, delta, a, b, c, skip, delta_bias, y);
  }
}

torch::Tensor forward(torch::Tensor u, torch::Tensor delta, torch::Tensor A, torch::Tensor B,
                      torch::Tensor C, torch::Tensor D, torch::Tensor delta_bias) {
  TORCH_CHECK(u.dim() == 3 && u.sizes() == delta.sizes(),
              "u and delta must be (batch, channels, tokens)");
  TORCH_CHECK(A.dim() == 2 && A.size(0) == u.size(1), "A must be (channels, state)");
  TORCH_CHECK(B.dim() == 3 && B.sizes() == C.sizes() && B.size(0) == u.size(0) &&
                  B.size(1) == A.size(1) && B.size(2) == u.size(2),
              "B and C must be (batch, state, tokens)");
  TORCH_CHECK(D.dim() == 1 && D.size(0) == u.size(1) && D.sizes() == delta_bias.sizes(),
              "D and delta_bias must have a number for each channel");
  TORCH_CHECK(A.scalar_type() == torch::kFloat32 && D.scalar_type() == torch::kFloat32 &&
                  delta_bias.scalar_type() == torch::kFloat32,
              "A, D and delta_bias must be float32");
  TORCH_CHECK(u.scalar_type() == delta.scalar_type() && u.scalar_type() == B.scalar_type() &&
                  u.scalar_type() == C.scalar_type(),
              "u, delta, B and C must be of one type");
  TORCH_CHECK(u.is_cuda() && delta.is_cuda() && A.is_cuda() && B.is_cuda() && C.is_cuda() &&
                  D.is_cuda() && delta_bias.is_cuda(),
              "all arguments must be on the GPU");
  u = u.contiguous();
  delta = delta.contiguous();
  A = A.contiguous();
  B = B.contiguous();
  C = C.contiguous();
  D = D.contiguous();
  delta_bias = delta_bias.contiguous();
  auto y = torch::empty_like(u);
  if (y.numel() == 0) return y;
  switch (u.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(u, delta, A, B, C, D, delta_bias, y);
      break;
    case torch::kFloat16:
      Launch<__half>(u, delta, A, B, C, D, delta_bias, y);
      break;
    case torch::kBFloat16:
      Launch<__nv_bfloat16>(u, delta, A, B, C, D, delta_bias, y);
      break;
    default:
      TORCH_CHECK(false, "u must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Selective scan"); }
