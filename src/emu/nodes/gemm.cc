// A simplified form of the algorithm of Goto and van de Geijn (2008). Each task owns a tile of C,
// packs slabs of op(A) and op(B) into strips as wide as the micro-kernel, and accumulates slab
// after slab. Packing converts to the compute type, so one micro-kernel per compute type works for
// all operand types. Tested by gemm_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/nodes/gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "emu/core/op.h"

namespace cupel::emu {
namespace {

constexpr int64_t kTileM = 192;
constexpr int64_t kTileN = 192;
constexpr int64_t kSlab = 256;
constexpr int64_t kHalfSlab = 16;
constexpr int64_t kVectorBytes = 64;

// A strip of A is `rows` high and a strip of B `cols` wide in packed memory; the kernel adds their
// product of depth `depth` to acc (row-major within a column: acc[col * rows + row]).
template <typename T>
struct MicroKernel {
  int rows, cols;
  void (*run)(int64_t depth, const T* a, const T* b, T* acc);
};

// GCC splits 64-byte vectors into vectors that the target supports.
template <typename T, int kVectors, int kCols>
[[gnu::always_inline]] inline void MicroKernelBody(int64_t depth, const T* a, const T* b, T* acc) {
  typedef T Vector __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
  constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
  constexpr int kRows = kVectors * kLanes;
  Vector sum[kCols][kVectors];
#pragma GCC unroll 16
  for (int c = 0; c < kCols; ++c) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[c][v] = *reinterpret_cast<const Vector*>(acc + c * kRows + v * kLanes);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vector x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      x[v] = *reinterpret_cast<const Vector*>(a + k * kRows + v * kLanes);
    }
#pragma GCC unroll 16
    for (int c = 0; c < kCols; ++c) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[c][v] += x[v] * b[k * kCols + c];
    }
  }
#pragma GCC unroll 16
  for (int c = 0; c < kCols; ++c) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Vector*>(acc + c * kRows + v * kLanes) = sum[c][v];
    }
  }
}

#if defined(__x86_64__)
template <typename T>
[[gnu::target("avx512f,fma")]] void RunAvx512(int64_t depth, const T* a, const T* b, T* acc) {
  MicroKernelBody<T, 2, 12>(depth, a, b, acc);
}
template <typename T>
[[gnu::target("avx2,fma")]] void RunAvx2(int64_t depth, const T* a, const T* b, T* acc) {
  MicroKernelBody<T, 1, 6>(depth, a, b, acc);
}
#endif
template <typename T>
void RunPortable(int64_t depth, const T* a, const T* b, T* acc) {
  MicroKernelBody<T, 1, 2>(depth, a, b, acc);
}

template <typename T>
MicroKernel<T> ChooseKernel() {
  constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {2 * kLanes, 12, RunAvx512<T>};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {kLanes, 6, RunAvx2<T>};
  }
#endif
  return {kLanes, 2, RunPortable<T>};
}

float RoundToTf32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

float RoundToHalf(float value) { return HalfToFloat(FloatToHalf(value)); }

template <typename T>
T LoadElement(const std::byte* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF16: {
      uint16_t bits;
      std::memcpy(&bits, data + index * 2, 2);
      return static_cast<T>(HalfToFloat(bits));
    }
    case DType::kBF16: {
      uint16_t bits;
      std::memcpy(&bits, data + index * 2, 2);
      return static_cast<T>(BFloat16ToFloat(bits));
    }
    case DType::kF64: {
      double value;
      std::memcpy(&value, data + index * 8, 8);
      return static_cast<T>(value);
    }
    default: {
      float value;
      std::memcpy(&value, data + index * 4, 4);
      return static_cast<T>(value);
    }
  }
}

void StoreElement(std::byte* data, DType dtype, int64_t index, double value) {
  switch (dtype) {
    case DType::kF16: {
      const uint16_t bits = FloatToHalf(static_cast<float>(value));
      std::memcpy(data + index * 2, &bits, 2);
      return;
    }
    case DType::kBF16: {
      const uint16_t bits = FloatToBFloat16(static_cast<float>(value));
      std::memcpy(data + index * 2, &bits, 2);
      return;
    }
    case DType::kF64:
      std::memcpy(data + index * 8, &value, 8);
      return;
    default: {
      const auto single = static_cast<float>(value);
      std::memcpy(data + index * 4, &single, 4);
      return;
    }
  }
}

// Packs `count` lines of depth [k0, k0 + depth) from line `first` into strips of `width` lines:
// out[strip][k][line]; missing lines are zero. A line is a row of op(A) or a column of op(B);
// `line_stride` and `k_stride` are in elements.
template <typename T>
void Pack(const GemmOperand& from, int64_t line_stride, int64_t k_stride, int64_t first,
          int64_t count, int64_t k0, int64_t depth, int width, bool tf32, T* out) {
  for (int64_t strip = 0; strip < count; strip += width) {
    const int64_t lines = std::min<int64_t>(width, count - strip);
    if (lines < width) std::fill(out, out + depth * width, T{0});
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t start = (first + strip + line) * line_stride + k0 * k_stride;
      for (int64_t k = 0; k < depth; ++k) {
        out[k * width + line] = LoadElement<T>(from.data, from.dtype, start + k * k_stride);
      }
    }
    if constexpr (sizeof(T) == 4) {
      if (tf32) std::transform(out, out + depth * width, out, RoundToTf32);
    }
    out += depth * width;
  }
}

template <typename T>
struct Scratch {
  std::vector<T> a, b, acc;
};

template <typename T>
void MultiplyTile(const GemmProblem& p, const MicroKernel<T>& kernel, int64_t m0, int64_t n0,
                  Scratch<T>* scratch) {
  const int64_t m = std::min(kTileM, p.m - m0);
  const int64_t n = std::min(kTileN, p.n - n0);
  const int64_t m_strips = (m + kernel.rows - 1) / kernel.rows;
  const int64_t n_strips = (n + kernel.cols - 1) / kernel.cols;
  const int64_t block = int64_t{kernel.rows} * kernel.cols;
  const int64_t slab = p.compute == GemmCompute::kF16 ? kHalfSlab : kSlab;
  const bool tf32 = p.compute == GemmCompute::kTF32;
  scratch->a.resize(static_cast<size_t>(m_strips * kernel.rows * slab));
  scratch->b.resize(static_cast<size_t>(n_strips * kernel.cols * slab));
  scratch->acc.assign(static_cast<size_t>(m_strips * n_strips * block), T{0});

  // As in cuBLAS, A and B are not read if alpha is 0.
  const int64_t depth_of_all = p.alpha == 0 ? 0 : p.k;
  for (int64_t k0 = 0; k0 < depth_of_all; k0 += slab) {
    const int64_t depth = std::min(slab, p.k - k0);
    Pack(p.a, p.a.transposed ? p.a.ld : 1, p.a.transposed ? 1 : p.a.ld, m0, m, k0, depth,
         kernel.rows, tf32, scratch->a.data());
    Pack(p.b, p.b.transposed ? 1 : p.b.ld, p.b.transposed ? p.b.ld : 1, n0, n, k0, depth,
         kernel.cols, tf32, scratch->b.data());
    for (int64_t j = 0; j < n_strips; ++j) {
      for (int64_t i = 0; i < m_strips; ++i) {
        kernel.run(depth, scratch->a.data() + i * kernel.rows * depth,
                   scratch->b.data() + j * kernel.cols * depth,
                   scratch->acc.data() + (j * m_strips + i) * block);
      }
    }
    if constexpr (sizeof(T) == 4) {
      if (p.compute == GemmCompute::kF16) {
        std::transform(scratch->acc.begin(), scratch->acc.end(), scratch->acc.begin(), RoundToHalf);
      }
    }
  }

  const T alpha = static_cast<T>(p.alpha);
  const T beta = static_cast<T>(p.beta);
  for (int64_t col = 0; col < n; ++col) {
    for (int64_t row = 0; row < m; ++row) {
      const int64_t strip = (col / kernel.cols) * m_strips + row / kernel.rows;
      const int64_t within = (col % kernel.cols) * kernel.rows + row % kernel.rows;
      const int64_t at = m0 + row + (n0 + col) * p.ldc;
      T value = alpha * scratch->acc[static_cast<size_t>(strip * block + within)];
      if (p.beta != 0) value += beta * LoadElement<T>(p.c, p.c_type, at);
      StoreElement(p.c, p.c_type, at, static_cast<double>(value));
    }
  }
}

template <typename T>
void Multiply(const GemmProblem& problem, ThreadPool* pool) {
  const MicroKernel<T> kernel = ChooseKernel<T>();
  const int64_t m_tiles = (problem.m + kTileM - 1) / kTileM;
  const int64_t n_tiles = (problem.n + kTileN - 1) / kTileN;
  auto body = [&](uint64_t begin, uint64_t end) {
    Scratch<T> scratch;
    for (uint64_t tile = begin; tile < end; ++tile) {
      const auto index = static_cast<int64_t>(tile);
      MultiplyTile(problem, kernel, index % m_tiles * kTileM, index / m_tiles * kTileN, &scratch);
    }
  };
  const auto tiles = static_cast<uint64_t>(m_tiles * n_tiles);
  if (pool == nullptr) {
    if (tiles > 0) body(0, tiles);
  } else {
    pool->ParallelFor(tiles, 1, body);
  }
}

}  // namespace

void MultiplyMatrices(const GemmProblem& problem, ThreadPool* pool) {
  if (problem.m <= 0 || problem.n <= 0) return;
  if (problem.compute == GemmCompute::kF64) {
    Multiply<double>(problem, pool);
  } else {
    Multiply<float>(problem, pool);
  }
}

}  // namespace cupel::emu
