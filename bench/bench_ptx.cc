// Speed of the PTX parser and printer on nvcc's output for bench/kernels.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "ptx/parser.h"
#include "ptx_files.h"

namespace cupel::bench {
namespace {

void MeasureParse(benchmark::State& state, const std::string& name) {
  const std::string text = ReadPtx(name);
  while (state.KeepRunning()) {
    auto module = ptx::Parse(text);
    if (!module) {
      state.SkipWithError(module.error().message.c_str());
      break;
    }
    benchmark::DoNotOptimize(module);
  }
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
}

void MeasurePrint(benchmark::State& state, const std::string& name) {
  auto module = ptx::Parse(ReadPtx(name));
  if (!module) {
    state.SkipWithError(module.error().message.c_str());
    return;
  }
  int64_t bytes = 0;
  while (state.KeepRunning()) {
    const std::string text = ptx::Print(*module);
    bytes += static_cast<int64_t>(text.size());
  }
  state.SetBytesProcessed(bytes);
}

}  // namespace
}  // namespace cupel::bench

int main(int argc, char** argv) {
  using namespace cupel::bench;
  for (const std::string& name : PtxNames()) {
    benchmark::RegisterBenchmark(("parse/" + name).c_str(), MeasureParse, name);
    benchmark::RegisterBenchmark(("print/" + name).c_str(), MeasurePrint, name);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
