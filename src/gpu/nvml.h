// The NVIDIA management library, opened at run time: reads a GPU's state and its energy use. It
// never changes a setting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "engine/timing.h"

namespace cupel::gpu {

class Nvml {
 public:
  /// `uuid` as returned by Device::Uuid. kEnvironment without the library or the GPU.
  static Result<std::unique_ptr<Nvml>> Open(const std::string& uuid);

  /// Values that cannot be read are zero.
  records::GpuState State() const;
  /// Energy since the driver was loaded. kUnsupported on GPUs that do not count it.
  Result<double> EnergyJoules() const;

 private:
  struct Library;
  struct Free {
    void operator()(Library* library) const;
  };
  Nvml(std::unique_ptr<Library, Free> library, void* device)
      : library_(std::move(library)), device_(device) {}
  std::unique_ptr<Library, Free> library_;
  void* device_;
};

}  // namespace cupel::gpu
