// One GPU as this process uses it: its context and a stream. A process that runs candidates'
// kernels makes one and ends after the first fault, since a context does not recover.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "gpu/driver.h"

namespace cupel::gpu {

class Blas;
class HostBlock;

class Device {
 public:
  /// The GPU number `ordinal` as the driver counts (CUDA_VISIBLE_DEVICES applies).
  static Result<std::unique_ptr<Device>> Open(std::shared_ptr<const Driver> driver, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  CuStream stream() const { return stream_; }
  const std::string& name() const { return name_; }  // "NVIDIA H200"
  int Attribute(int which) const;                    // CU_DEVICE_ATTRIBUTE_…; 0 when unknown
  /// "GPU-1a2b…", as nvidia-smi and NVML write it.
  std::string Uuid() const;
  /// cuBLAS for this GPU, opened when first asked for.
  Result<Blas*> blas() const;
  /// Page-locked memory, for one copy at a time.
  Result<std::span<std::byte>> Staging() const;
  /// Null when nobody has asked.
  const Blas* opened_blas() const { return blas_.get(); }
  /// "9.0".
  std::string Capability() const;
  /// "sm_90": what PTX for this GPU is compiled for.
  std::string Target() const;

  /// Waits for the stream. kTimeout after `deadline`; the stream still runs then. The result of the
  /// work is `code`. `spin` asks again and again, for wall times.
  Status Await(std::chrono::milliseconds deadline, CuResult* code, bool spin = false) const;

 private:
  explicit Device(std::shared_ptr<const Driver> driver);

  std::shared_ptr<const Driver> driver_;
  CuDevice device_ = 0;
  CuStream stream_ = nullptr;
  std::string name_;
  mutable std::unique_ptr<Blas> blas_;
  mutable std::unique_ptr<HostBlock> staging_;
};

/// The description that host code is shown for this GPU: that of its name in the table, or of the
/// table's GPU of the same compute capability with what the driver says of this one.
Result<device::Description> DescriptionOf(const Device& device);

}  // namespace cupel::gpu
