// What all measurements of this process share: cupel's own kernels, the memory that flushes the L2
// cache, and the clock's overhead.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/timing.h"
#include "gpu/graph.h"

namespace cupel::gpu {

class Clock {
 public:
  /// Takes a few milliseconds. Borrows the device.
  static Result<std::unique_ptr<Clock>> Start(const Device& device);

  /// Enqueues a kernel that reads more bytes than fit in the L2 cache.
  Status Flush();
  /// Enqueues an empty kernel.
  Status Empty();
  /// Measures once the microseconds that the events show for work that takes no time, after a
  /// flush.
  Result<double> MeasureOverhead();
  /// The median of several measurements.
  Result<double> Overhead();
  /// Enqueues a kernel that clears the shared memory of every multiprocessor.
  Status Scrub();
  /// The memory that every flush reads. Only this clock may write to it.
  const Block& flushed() const { return flushed_; }

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

  const Device& device_;
  Module kernels_;
  Block flushed_, sum_;
  CuFunction read_ = nullptr, empty_ = nullptr, scrub_ = nullptr;
  std::unique_ptr<TimedGraph> nothing_;
};

/// The same kernels, for the clock of another process.
engine::ClockKernels KernelsFor(const Device& device);

}  // namespace cupel::gpu
