// What every measurement of this process shares: cupel's own kernels, the memory that flushes the
// L2, and what the clock itself takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/timing.h"
#include "gpu/graph.h"

namespace cupel::gpu {

class Clock {
 public:
  /// Takes some milliseconds. Borrows the device.
  static Result<std::unique_ptr<Clock>> Start(const Device& device);

  /// Enqueues a kernel that reads more than the L2 holds.
  Status Flush();
  /// Enqueues an empty kernel.
  Status Empty();
  /// What the events show for work that takes no time, microseconds; now and behind a flush.
  Result<double> TakeNothing();
  /// The median of some.
  Result<double> Overhead();
  /// True when a kernel has written to the flush's memory.
  Result<bool> WasTamperedWith();

  CuFunction Own(const char* kernel) const { return kernels_.Find(kernel); }
  Status Launch(CuFunction function, uint32_t grid, void** parameters) const;
  /// Blocks of kOwnBlock threads that fill the GPU.
  uint32_t FullGrid() const;
  static uint64_t FlushBytes(const Device& device);

 private:
  Clock(const Device& device, Module kernels, Block flushed, Block sum)
      : device_(device),
        kernels_(std::move(kernels)),
        flushed_(std::move(flushed)),
        sum_(std::move(sum)) {}
  Result<uint64_t> Sum();

  const Device& device_;
  Module kernels_;
  Block flushed_, sum_;
  CuFunction read_ = nullptr, empty_ = nullptr;
  uint64_t sum_of_a_flush_ = 0;
  std::unique_ptr<TimedGraph> nothing_;
};

/// The same kernels for another process's clock.
engine::ClockKernels KernelsFor(const Device& device);

}  // namespace cupel::gpu
