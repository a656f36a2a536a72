// Speed of the emulator: lane-instructions per second and core on typical kernels. Each runs with
// bounds checks only, with counters, and with full checks, on one thread and on all threads.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "emu/check/global_race.h"
#include "emu/core/memory.h"
#include "emu/core/thread_pool.h"
#include "emu/decode/kernel_module.h"
#include "emu/exec/launch.h"
#include "ptx/parser.h"
#include "ptx_files.h"

namespace cupel::bench {
namespace {

/// A kernel and its launch. The parameters are the buffers, then the integers, then the floats.
struct Workload {
  std::string name;
  plan::Dim3 grid, block;
  std::vector<uint64_t> buffers;  // size of each pointer parameter's buffer, in floats
  std::vector<int> integers;
  std::vector<float> floats;
  double multiply_adds = 0;  // of matrix instructions
};

std::vector<Workload> Workloads() {
  return {
      // mnist-like layers, 256 rows of 784 into 128.
      {"linear_relu",
       {256 * 128 / 8, 1, 1},
       {256, 1, 1},
       {256 * 784, 128 * 784, 128, 256 * 128},
       {256, 128, 784},
       {}},
      {"gemm_tiled", {16, 16, 1}, {16, 16, 1}, {1 << 16, 1 << 16, 1 << 16}, {256}, {}},
      {"sgemm_register", {4, 4, 1}, {256, 1, 1}, {1 << 18, 1 << 18, 1 << 18}, {512}, {}},
      {"silu_mul", {2048, 1, 1}, {256, 1, 1}, {1 << 21, 1 << 21, 1 << 21}, {1 << 19}, {}},
      {"rmsnorm", {512, 1, 1}, {256, 1, 1}, {512 * 4096, 4096, 512 * 4096}, {4096}, {1e-5f}},
      {"matmul_double", {16, 16, 1}, {16, 16, 1}, {1 << 16, 1 << 16, 1 << 16}, {256}, {}},
      {"fma_chain", {64, 1, 1}, {256, 1, 1}, {1 << 14, 1 << 14}, {4096}, {}},
      {"mma_tile",
       {16, 1, 1},
       {256, 1, 1},
       {1 << 14, 1 << 14},
       {256},
       {},
       16.0 * 8 * 256 * 8 * 2048},
      {"wgmma_tile",
       {8, 1, 1},
       {256, 1, 1},
       {1 << 14, 1 << 14},
       {64},
       {},
       8.0 * 64 * 128 * 128 * 64},
  };
}

enum Mode { kBoundsOnly, kCounters, kFullChecks };

struct Loaded {
  std::unique_ptr<emu::KernelModule> module;
  emu::GlobalMemory memory;
  std::vector<std::byte> parameters;
  emu::LaunchRequest request;
};

template <typename T>
void Append(std::vector<std::byte>* bytes, T value) {
  while (bytes->size() % sizeof value != 0) bytes->push_back(std::byte{0});
  bytes->resize(bytes->size() + sizeof value);
  std::memcpy(bytes->data() + bytes->size() - sizeof value, &value, sizeof value);
}

Result<Loaded> Load(const Workload& workload, Mode mode) {
  TRY_ASSIGN(const ptx::Module module, ptx::Parse(ReadPtx(workload.name)));
  TRY_ASSIGN(auto kernels, emu::KernelModule::Decode(module));
  TRY_ASSIGN(auto memory, emu::GlobalMemory::Create());
  Loaded loaded{std::move(kernels), std::move(memory), {}, {}};
  if (mode == kFullChecks)
    loaded.memory.Watch(
        std::make_unique<emu::GlobalChecker>(loaded.module->global_granule_shift()));
  int index = 0;
  for (uint64_t floats : workload.buffers) {
    const bool is_output = static_cast<size_t>(index) + 1 == workload.buffers.size();
    TRY_ASSIGN(const uint64_t address, loaded.memory.Allocate(floats * 4, index, !is_output,
                                                              fmt::format("argument {}", index)));
    ++index;
    std::byte* host = loaded.memory.Host(address);
    for (uint64_t i = 0; i < floats; ++i) {
      const float value = static_cast<float>(i % 61) / 64.0f;
      std::memcpy(host + i * 4, &value, 4);
    }
    Append(&loaded.parameters, address);
  }
  for (int value : workload.integers) Append(&loaded.parameters, value);
  for (float value : workload.floats) Append(&loaded.parameters, value);
  const emu::Kernel* kernel = loaded.module->Find(workload.name);
  if (kernel == nullptr || !kernel->unsupported.empty()) {
    return Fail(ErrorCode::kUnsupported,
                kernel == nullptr ? "no such kernel" : kernel->unsupported);
  }
  loaded.request.kernel = kernel;
  loaded.request.grid = workload.grid;
  loaded.request.block = workload.block;
  return loaded;
}

double ProcessSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void MeasureLaunch(benchmark::State& state, const Workload& workload, Mode mode, int threads) {
  auto loaded = Load(workload, mode);
  if (!loaded) {
    state.SkipWithError(loaded.error().message.c_str());
    return;
  }
  loaded->request.parameters = loaded->parameters;
  emu::ThreadPool pool(threads);
  engine::RunOptions options;
  auto launch = [&] { return emu::RunLaunch(loaded->request, loaded->memory, options, pool); };

  // Count instructions only once, since all modes execute the same ones.
  auto counted = launch();
  if (!counted || !counted->completed) {
    const std::string why = !counted                    ? counted.error().message
                            : counted->findings.empty() ? counted->unsupported
                                                        : counted->findings[0].message;
    state.SkipWithError(why.c_str());
    return;
  }
  options.counters = mode != kBoundsOnly;
  options.full_checks = mode == kFullChecks;
  const double start = ProcessSeconds();
  while (state.KeepRunning()) {
    auto outcome = launch();
    if (!outcome || !outcome->completed) state.SkipWithError("the launch failed");
  }
  const double lanes = static_cast<double>(counted->counters.lane_instructions) *
                       static_cast<double>(state.iterations());
  const double seconds = ProcessSeconds() - start;
  state.counters["lane_instructions_per_core"] = lanes / seconds;
  if (workload.multiply_adds > 0) {
    state.counters["multiply_adds_per_core"] =
        workload.multiply_adds * static_cast<double>(state.iterations()) / seconds;
  }
}

void Register(const Workload& workload) {
  const std::pair<Mode, const char*> modes[] = {
      {kBoundsOnly, "bounds"}, {kCounters, "counters"}, {kFullChecks, "full_checks"}};
  for (const auto& [mode, label] : modes) {
    for (int threads : {1, 0}) {
      const std::string name =
          fmt::format("{}/{}/{}", workload.name, label, threads == 1 ? "1_thread" : "all_threads");
      benchmark::RegisterBenchmark(name.c_str(), MeasureLaunch, workload, mode, threads)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace cupel::bench

int main(int argc, char** argv) {
  for (const auto& workload : cupel::bench::Workloads()) cupel::bench::Register(workload);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
