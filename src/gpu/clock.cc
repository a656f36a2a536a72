// Tested by timer_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/clock.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/faults.h"
#include "gpu/outputs.h"
#include "gpu/own_kernels.h"
#include "stats/robust.h"

namespace cupel::gpu {
namespace {

constexpr int kL2Bytes = 38, kSharedOptin = 97;  // CUdevice_attribute
constexpr uint64_t kLeastFlush = uint64_t{128} << 20;
constexpr uint32_t kPattern = 0x3f9d70a4;
constexpr int kCalibrationSamples = 25;
constexpr std::chrono::milliseconds kClockDeadline{10'000};
/// Duration of an empty kernel, from the first block's start to the last one's end: CUPTI measures
/// 0.64 us on an H200. The events also include the time of recording and launching.
constexpr double kEmptyKernelUs = 0.64;
constexpr uint32_t kProbeIterations = 40;

uint32_t GridFor(const Device& device) {
  constexpr uint32_t kBlocksPerMultiprocessor = 8;  // of 256 threads
  return static_cast<uint32_t>(std::max(1, device.Attribute(kMultiprocessors))) *
         kBlocksPerMultiprocessor;
}

}  // namespace

uint64_t Clock::FlushBytes(const Device& device) {
  return std::max(kLeastFlush, 4 * static_cast<uint64_t>(device.Attribute(kL2Bytes)));
}

uint32_t Clock::FullGrid() const { return GridFor(device_); }

Result<std::unique_ptr<Clock>> Clock::Start(const Device& device) {
  TRY_ASSIGN(Module kernels,
             Module::Load(device, OwnKernelsPtx(device.Target()), "cupel's own kernels"));
  TRY_ASSIGN(Block flushed, Block::Allocate(device, FlushBytes(device)));
  TRY_ASSIGN(Block sum, Block::Allocate(device, sizeof(uint64_t)));
  std::unique_ptr<Clock> clock(
      new Clock(device, std::move(kernels), std::move(flushed), std::move(sum)));
  clock->read_ = clock->Own(kReadKernel);
  clock->empty_ = clock->Own(kEmptyKernel);
  clock->scrub_ = clock->Own(kScrubKernel);
  const Driver& driver = device.driver();
  // Request all shared memory of a multiprocessor, so that each one gets one block.
  TRY(driver.Check(
      driver.function_set(clock->scrub_, kMaxDynamicShared, device.Attribute(kSharedOptin)),
      "requesting shared memory"));
  TRY(clock->flushed_.Fill(kPattern));
  TRY(clock->sum_.Fill(0));
  TRY(clock->Flush());
  TRY(clock->Empty());
  TRY(clock->Scrub());
  TRY_ASSIGN(
      TimedGraph nothing,
      TimedGraph::Capture(device, [&] { return clock->Flush(); }, [&] { return clock->Empty(); }));
  clock->nothing_ = std::make_unique<TimedGraph>(std::move(nothing));
  return clock;
}

Status Clock::Launch(CuFunction function, uint32_t grid, void** parameters) const {
  CuLaunchConfig config;
  config.grid[0] = grid;
  config.block[0] = kOwnBlock;
  config.stream = device_.stream();
  const Driver& driver = device_.driver();
  return driver.Check(driver.launch(&config, function, parameters, nullptr),
                      "launching one of cupel's own kernels");
}

Status Clock::Flush() {
  CuPointer data = flushed_.address(), sum = sum_.address();
  uint64_t bytes = flushed_.bytes();
  void* parameters[] = {&data, &bytes, &sum};
  return Launch(read_, FullGrid(), parameters);
}

Status Clock::Empty() { return Launch(empty_, 1, nullptr); }

Status Clock::Scrub() {
  CuLaunchConfig config;
  config.grid[0] = static_cast<unsigned>(std::max(1, device_.Attribute(kMultiprocessors)));
  config.block[0] = 1024;
  config.shared_bytes = static_cast<unsigned>(device_.Attribute(kSharedOptin));
  config.stream = device_.stream();
  const Driver& driver = device_.driver();
  return driver.Check(driver.launch(&config, scrub_, nullptr, nullptr), "clearing shared memory");
}

Result<double> Clock::MeasureOverhead() {
  TRY(nothing_->Launch());
  TRY_ASSIGN(const auto fault, AwaitKernels(device_, kClockDeadline));
  if (fault) return Fail(ErrorCode::kEnvironment, "an empty kernel failed: " + fault->message);
  TRY_ASSIGN(const double us, nothing_->Microseconds());
  return std::max(0.0, us - kEmptyKernelUs);
}

Result<double> Clock::Overhead() {
  std::vector<double> times;
  for (int i = 0; i < kCalibrationSamples; ++i) {
    TRY_ASSIGN(const double us, MeasureOverhead());
    times.push_back(us);
  }
  return stats::Median(times);
}

engine::ClockKernels KernelsFor(const Device& device) {
  engine::ClockKernels kernels;
  kernels.flush_ptx = kernels.probe_ptx = OwnKernelsPtx(device.Target());
  kernels.flush_entry = kReadKernel;
  kernels.flush_bytes = Clock::FlushBytes(device);
  kernels.flush_grid = kernels.probe_grid = GridFor(device);
  kernels.flush_block = kernels.probe_block = kOwnBlock;
  kernels.probe_entry = kFmaKernel;
  kernels.probe_iterations = kProbeIterations;
  return kernels;
}

}  // namespace cupel::gpu
