// Measures on a GPU the constants of src/emu/cost.cc: latencies of dependent instructions, and
// rates of atomics, strided accesses and launches. Run it with nvcc -O3 -std=c++17 -arch=native
// calibrate.cu -o calibrate && ./calibrate. Clocks are those of one SM. SPDX-License-Identifier:
// Apache-2.0
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

struct Gpu {
  int sms = 0;
  double clocks_per_us = 0;
  cudaEvent_t begin = nullptr, end = nullptr;
  char* memory = nullptr;  // 256 MiB
};
constexpr size_t kMemory = size_t{256} << 20;

/// The median of seven launches, in microseconds; `launch` gets the index of the run.
template <class F>
double Time(const Gpu& gpu, const F& launch) {
  std::vector<float> times;
  for (int i = 0; i < 9; ++i) {
    Check(cudaEventRecord(gpu.begin));
    launch();
    Check(cudaEventRecord(gpu.end));
    Check(cudaEventSynchronize(gpu.end));
    Check(cudaGetLastError());
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, gpu.begin, gpu.end));
    if (i >= 2) times.push_back(ms);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2] * 1e3;
}

// ---- latencies: one thread (or warp), a chain of dependent instructions ----

constexpr int kChain = 4096;

enum class Link { kFma, kDfma, kExp, kSqrt, kDivide, kConvert, kShuffle, kVote, kMatch, kShared,
                  kIntegerMultiply, kDivideInteger };

template <Link L>
__global__ void Chain(float* out, long long* clocks, float a, float b) {
  __shared__ int next[32];
  next[threadIdx.x] = static_cast<int>((threadIdx.x + 1) % 32);
  __syncwarp();
  float x = a;
  double d = a;
  int i = static_cast<int>(threadIdx.x);
  const long long start = clock64();
#pragma unroll 16
  for (int n = 0; n < kChain; ++n) {
    if constexpr (L == Link::kFma) x = fmaf(x, b, a);
    if constexpr (L == Link::kDfma) d = fma(d, 1.0000001, 1e-9);
    if constexpr (L == Link::kExp) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    if constexpr (L == Link::kSqrt) x = sqrtf(x);
    if constexpr (L == Link::kDivide) x = b / x;
    if constexpr (L == Link::kConvert) i = static_cast<int>(static_cast<float>(i)) + 1;
    if constexpr (L == Link::kShuffle) i = __shfl_xor_sync(0xffffffffu, i, 1);
    if constexpr (L == Link::kVote) i = static_cast<int>(__ballot_sync(0xffffffffu, i & 1));
    if constexpr (L == Link::kMatch) i = static_cast<int>(__match_any_sync(0xffffffffu, i & 15));
    if constexpr (L == Link::kShared) i = next[i & 31];
    if constexpr (L == Link::kIntegerMultiply) i = i * i + 3;
    if constexpr (L == Link::kDivideInteger) i = 1000003 / (i | 1);
  }
  const long long stop = clock64();
  out[threadIdx.x] = x + static_cast<float>(d) + static_cast<float>(i);
  if (threadIdx.x == 0) *clocks = stop - start;
}

template <Link L>
void Latency(const Gpu& gpu, const char* name, int threads = 32) {
  auto* out = reinterpret_cast<float*>(gpu.memory);
  auto* clocks = reinterpret_cast<long long*>(gpu.memory + 4096);
  long long value = 0;
  for (int i = 0; i < 2; ++i) {
    Chain<L><<<1, threads>>>(out, clocks, 1.0f, 1.0f);
    Check(cudaMemcpy(&value, clocks, sizeof value, cudaMemcpyDeviceToHost));
  }
  std::printf("latency   %-34s %8.1f clocks\n", name, static_cast<double>(value) / kChain);
}

__global__ void Barriers(long long* clocks) {
  const long long start = clock64();
  for (int n = 0; n < 256; ++n) __syncthreads();
  if (threadIdx.x == 0) *clocks = (clock64() - start) / 256;
}

__global__ void Pointers(const uint32_t* next, int count, uint32_t* out, long long* clocks) {
  uint32_t at = 0;
  for (int i = 0; i < 64; ++i) at = next[at];  // warms the TLB
  const long long start = clock64();
  for (int i = 0; i < count; ++i) at = next[at];
  const long long stop = clock64();
  *out = at;
  *clocks = (stop - start) / count;
}

void PointerChase(const Gpu& gpu, const char* name, size_t bytes, size_t step, int rounds) {
  const size_t count = bytes / 4;
  std::vector<uint32_t> next(count);
  for (size_t i = 0; i < count; i += step / 4) {
    next[i] = static_cast<uint32_t>((i + step / 4 * 37) % count);
  }
  auto* memory = reinterpret_cast<uint32_t*>(gpu.memory);
  auto* rest = reinterpret_cast<uint32_t*>(gpu.memory + kMemory - 4096);
  Check(cudaMemcpy(memory, next.data(), bytes, cudaMemcpyHostToDevice));
  auto* clocks = reinterpret_cast<long long*>(gpu.memory + kMemory - 1024);
  long long value = 0;
  for (int i = 0; i < rounds; ++i) {
    Pointers<<<1, 1>>>(memory, 2000, rest, clocks);
    Check(cudaMemcpy(&value, clocks, sizeof value, cudaMemcpyDeviceToHost));
  }
  std::printf("latency   %-34s %8lld clocks\n", name, value);
}

// ---- atomics ----

enum class Where { kOneAddress, kOneLane, kOneLine, kEightLines, kOwnLine, kSpread };

template <Where W>
__global__ void Atomics(float* memory, int times) {
  const unsigned lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  unsigned random = warp * 2654435761u + lane * 40503u + 12345u;
  for (int i = 0; i < times; ++i) {
    random = random * 1664525u + 1013904223u;
    unsigned at = 0;
    if (W == Where::kOneLane && lane != 0) continue;
    if (W == Where::kOneLine) at = lane;
    if (W == Where::kEightLines) at = (random >> 16) % 256;
    if (W == Where::kOwnLine) at = (warp * 32 + lane) % (1u << 22);
    if (W == Where::kSpread) at = (random >> 4) % (1u << 22);
    atomicAdd(&memory[at], 1.0f);
  }
}

template <Where W>
void AtomicRate(const Gpu& gpu, const char* name) {
  const int blocks = gpu.sms * 4, threads = 256, times = 16;
  const double us = Time(gpu, [&] {
    Atomics<W><<<blocks, threads>>>(reinterpret_cast<float*>(gpu.memory), times);
  });
  const double lanes = double{1} * blocks * threads * times / (W == Where::kOneLane ? 32 : 1);
  std::printf("atomics   %-34s %8.2f lanes per clock\n", name, lanes / us / gpu.clocks_per_us);
}

// 32 neighbours, 512 bytes for each warp.
__global__ void QuadAtomics(float* memory, int times) {
#if __CUDA_ARCH__ >= 900
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  const float* to = memory + thread % (1u << 20) * 4;
  for (int i = 0; i < times; ++i) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(__cvta_generic_to_global(to)), "f"(1.0f)
                 : "memory");
  }
#endif
}

void QuadAtomicRate(const Gpu& gpu) {
  const int blocks = gpu.sms * 4, threads = 256, times = 16;
  const double us =
      Time(gpu, [&] { QuadAtomics<<<blocks, threads>>>(reinterpret_cast<float*>(gpu.memory), times); });
  std::printf("atomics   %-34s %8.2f lanes per clock\n", "32 neighbours, 4 floats each (sm_90)",
              double{1} * blocks * threads * times / us / gpu.clocks_per_us);
}

template <class T>
__global__ void SharedAtomics(T* out, int times, unsigned same) {
  __shared__ T bins[1024];
  for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned at = (lane < same ? 0 : lane) + warp % 4 * 256;
  for (int i = 0; i < times; ++i) atomicAdd(&bins[at], static_cast<T>(i));
  __syncthreads();
  if (threadIdx.x < 32) out[threadIdx.x] = bins[threadIdx.x];
}

template <class T>
void SharedAtomicRate(const Gpu& gpu, const char* type) {
  for (unsigned same : {1u, 2u, 8u, 16u, 32u}) {
    const int times = 4096, threads = 256;
    const double us = Time(gpu, [&] {
      SharedAtomics<T><<<gpu.sms, threads>>>(reinterpret_cast<T*>(gpu.memory), times, same);
    });
    const double empty = Time(gpu, [&] {
      SharedAtomics<T><<<gpu.sms, threads>>>(reinterpret_cast<T*>(gpu.memory), 0, same);
    });
    std::printf("atomics   shared %s, %2u lanes at one word  %8.2f clocks per warp instruction\n", type, same,
                (us - empty) * gpu.clocks_per_us / (threads / 32 * times));
  }
}

// ---- strided accesses of global memory ----

__global__ void StridedStores(float* memory, unsigned stride, unsigned mask) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned i = 0; i < 64; ++i) {
    memory[((thread + i * gridDim.x * blockDim.x) * stride) & mask] = 1.0f;
  }
}
__global__ void StridedLoads(const float* memory, float* out, unsigned stride, unsigned mask) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
#pragma unroll
  for (unsigned i = 0; i < 64; ++i) {
    sum += __ldcg(&memory[((thread + i * gridDim.x * blockDim.x) * stride) & mask]);
  }
  if (sum == 12345.0f) *out = sum;
}
/// All loads of a block are in 16 KiB, which fit into the L1.
__global__ void CachedLoads(const float* memory, float* out, unsigned stride, int times) {
  float sum = 0;
  for (int i = 0; i < times; ++i) {
    float x;
    const float* from = &memory[(threadIdx.x % 32 * stride + static_cast<unsigned>(i % 16)) & 4095u];
    asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(x) : "l"(from));
    sum += x;
  }
  if (sum == 12345.0f) *out = sum;
}

void Strides(const Gpu& gpu) {
  auto* memory = reinterpret_cast<float*>(gpu.memory);
  const unsigned mask = (1u << 22) - 1;  // 16 MiB: in the L2
  for (unsigned stride : {1u, 2u, 4u, 8u, 32u, 2048u}) {
    const int blocks = gpu.sms * 8, threads = 256;
    const double requests = double{64} * blocks * threads / 32;
    const double stores = Time(gpu, [&] { StridedStores<<<blocks, threads>>>(memory, stride, mask); });
    const double loads = Time(gpu, [&] {
      StridedLoads<<<blocks, threads>>>(memory, memory + kMemory / 8, stride, mask);
    });
    const double cached = Time(gpu, [&] {
      CachedLoads<<<gpu.sms, 1024>>>(memory, memory + kMemory / 8, stride, 2048);
    });
    const double sectors = std::min(32u, 4 * stride);
    std::printf("strides   %5u bytes: stores %6.1f, L2 loads %6.1f sectors per clock; L1 %5.1f clocks per "
                "request\n",
                stride * 4, requests * sectors / stores / gpu.clocks_per_us,
                requests * sectors / loads / gpu.clocks_per_us,
                cached * gpu.clocks_per_us / (32.0 * 2048));
  }
}

__global__ void Copy(const float4* in, float4* out, size_t count) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < count) out[i] = in[i];
}
__global__ void Empty() {}

}  // namespace

int main() {
  Gpu gpu;
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, 0));
  int khz = 0;
  Check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
  gpu.sms = properties.multiProcessorCount;
  gpu.clocks_per_us = khz / 1e3;
  Check(cudaEventCreate(&gpu.begin));
  Check(cudaEventCreate(&gpu.end));
  Check(cudaMalloc(&gpu.memory, kMemory));
  Check(cudaMemset(gpu.memory, 0, kMemory));
  std::printf("%s, %d SMs, %.0f MHz\n", properties.name, gpu.sms, gpu.clocks_per_us);
  for (int i = 0; i < 200; ++i) Copy<<<32768, 256>>>(reinterpret_cast<float4*>(gpu.memory),
      reinterpret_cast<float4*>(gpu.memory + kMemory / 2), kMemory / 32);
  Latency<Link::kFma>(gpu, "fma.f32");
  Latency<Link::kDfma>(gpu, "fma.f64");
  Latency<Link::kExp>(gpu, "ex2.approx");
  Latency<Link::kSqrt>(gpu, "sqrt.rn");
  Latency<Link::kDivide>(gpu, "div.rn");
  Latency<Link::kConvert>(gpu, "two conversions and an add");
  Latency<Link::kIntegerMultiply>(gpu, "mad.lo.s32");
  Latency<Link::kDivideInteger>(gpu, "div.s32");
  Latency<Link::kShuffle>(gpu, "shfl.sync");
  Latency<Link::kVote>(gpu, "vote.sync and an and");
  Latency<Link::kMatch>(gpu, "match.any.sync, 16 values");
  Latency<Link::kShared>(gpu, "ld.shared and an and");
  auto* clocks = reinterpret_cast<long long*>(gpu.memory);
  for (int threads : {32, 256, 1024}) {
    long long value = 0;
    Barriers<<<1, threads>>>(clocks);
    Check(cudaMemcpy(&value, clocks, sizeof value, cudaMemcpyDeviceToHost));
    std::printf("latency   bar.sync, %4d threads              %8lld clocks\n", threads, value);
  }
  PointerChase(gpu, "ld.global, L1", 16 << 10, 128, 2);
  PointerChase(gpu, "ld.global, L2", 8 << 20, 128, 2);
  PointerChase(gpu, "ld.global, DRAM", 200 << 20, 8192, 1);
  AtomicRate<Where::kOneAddress>(gpu, "32 lanes at one address");
  AtomicRate<Where::kOneLane>(gpu, "one lane a warp at one address");
  AtomicRate<Where::kOneLine>(gpu, "32 neighbours in one line");
  AtomicRate<Where::kEightLines>(gpu, "anywhere in 8 lines");
  AtomicRate<Where::kOwnLine>(gpu, "32 neighbours, a line for each warp");
  AtomicRate<Where::kSpread>(gpu, "anywhere in 16 MiB");
  QuadAtomicRate(gpu);
  SharedAtomicRate<int>(gpu, "int  ");
  SharedAtomicRate<float>(gpu, "float");
  Strides(gpu);
  for (size_t bytes : {size_t{1} << 20, size_t{8} << 20, size_t{100} << 20}) {
    const double us = Time(gpu, [&] {
      Copy<<<static_cast<unsigned>(bytes / 16 / 256), 256>>>(
          reinterpret_cast<float4*>(gpu.memory), reinterpret_cast<float4*>(gpu.memory + kMemory / 2),
          bytes / 16);
    });
    std::printf("copy      %4zu MiB: %8.2f us, %6.2f TB/s\n", bytes >> 20, us,
                2.0 * static_cast<double>(bytes) / us / 1e6);
  }
  std::printf("launch    empty kernel between two events: %.2f us\n",
              Time(gpu, [&] { Empty<<<1, 32>>>(); }));
  std::printf("launch    of 200 empty kernels in a row: %.2f us each\n", Time(gpu, [&] {
                for (int i = 0; i < 200; ++i) Empty<<<1, 32>>>();
              }) / 200);
  return 0;
}
