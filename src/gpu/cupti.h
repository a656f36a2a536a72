// CUPTI's own clock for kernels: when each began and ended, as the GPU's hardware stamps it. CUPTI
// is opened at run time; prototypes are declared in cupti.cc, so that no CUDA header is needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace cupel::gpu {

struct KernelTime {
  uint64_t start_ns = 0, end_ns = 0;  // of one clock, from an arbitrary start
  std::string name;                   // mangled
};

/// One at a time in a process. Best started before the process makes its context. Kernels of CUDA
/// graphs are seen one by one. While it lives, launches cost the host some microseconds more.
class KernelClock {
 public:
  /// Opens $CUPEL_CUPTI, else libcupti of the system or the toolkit. kEnvironment without one.
  static Result<std::unique_ptr<KernelClock>> Start();
  ~KernelClock();
  KernelClock(const KernelClock&) = delete;
  KernelClock& operator=(const KernelClock&) = delete;

  /// Forgets what was seen so far. The GPU must be idle.
  Status Begin();
  /// Kernels since Begin in the order in which they began. The GPU must be idle: wait for the
  /// stream first.
  Result<std::vector<KernelTime>> End();
  uint32_t version() const { return version_; }  // CUPTI's API version

 private:
  struct Library;
  explicit KernelClock(std::unique_ptr<Library> library, uint32_t version);

  std::unique_ptr<Library> library_;
  uint32_t version_ = 0;
};

}  // namespace cupel::gpu
