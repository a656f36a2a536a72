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
  /// Enqueues a kernel that clears the shared memory of every multiprocessor.
  Status Scrub();
  /// Memory that only this clock may write: read by every flush.
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

/// The same kernels for another process's clock.
engine::ClockKernels KernelsFor(const Device& device);

}  // namespace cupel::gpu
