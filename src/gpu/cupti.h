// CUPTI's clock for kernels: the start and end of each, from hardware timestamps of the GPU. CUPTI
// is opened at run time. cupti.cc declares the prototypes, so that no CUDA header is needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace cupel::gpu {

struct KernelTime {
  uint64_t start_ns = 0, end_ns = 0;  // of one clock with an arbitrary origin
  std::string name;                   // mangled
};

/// A process can have one at a time, and should start it before it creates its context. Kernels of
/// CUDA graphs are recorded one by one. While the clock exists, launches take the host a few
/// microseconds longer.
class KernelClock {
 public:
  /// Opens $CUPEL_CUPTI, else libcupti of the system or the toolkit. kEnvironment if there is none.
  static Result<std::unique_ptr<KernelClock>> Start();
  ~KernelClock();
  KernelClock(const KernelClock&) = delete;
  KernelClock& operator=(const KernelClock&) = delete;

  /// Discards the kernels recorded so far. The GPU must be idle.
  Status Begin();
  /// The kernels since Begin, sorted by start time. The GPU must be idle: wait for the stream
  /// first.
  Result<std::vector<KernelTime>> End();
  uint32_t version() const { return version_; }  // CUPTI's API version

 private:
  struct Library;
  explicit KernelClock(std::unique_ptr<Library> library, uint32_t version);

  std::unique_ptr<Library> library_;
  uint32_t version_ = 0;
};

}  // namespace cupel::gpu
