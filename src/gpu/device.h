// One GPU as this process uses it: its context and a stream. A process that runs candidates'
// kernels creates one and ends after the first fault, because a context does not recover.
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
class Operators;

class Device {
 public:
  /// Opens the GPU with the driver's number `ordinal` (CUDA_VISIBLE_DEVICES applies).
  static Result<std::unique_ptr<Device>> Open(std::shared_ptr<const Driver> driver, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  CuStream stream() const { return stream_; }
  const std::string& name() const { return name_; }  // "NVIDIA H200"
  int Attribute(int which) const;                    // CU_DEVICE_ATTRIBUTE_…; 0 if unknown
  /// "GPU-1a2b…", as nvidia-smi and NVML write it.
  std::string Uuid() const;
  /// cuBLAS for this GPU, opened by the first call.
  Result<Blas*> blas() const;
  /// Page-locked memory, for one copy at a time.
  Result<std::span<std::byte>> Staging() const;
  /// Null if blas() has not been called.
  const Blas* opened_blas() const { return blas_.get(); }
  /// PyTorch in this process. Null in a process without it.
  Operators* operators() const { return operators_; }
  void set_operators(Operators* operators) { operators_ = operators; }
  /// "9.0".
  std::string Capability() const;
  /// "sm_90": the target for which PTX is compiled.
  std::string Target() const;

  /// Waits for the stream and sets `*code` to the result of its work. kTimeout after `deadline`;
  /// the stream is still running then. With `spin` it polls without pauses, for wall times.
  Status Await(std::chrono::milliseconds deadline, CuResult* code, bool spin = false) const;

 private:
  explicit Device(std::shared_ptr<const Driver> driver);

  std::shared_ptr<const Driver> driver_;
  CuDevice device_ = 0;
  CuStream stream_ = nullptr;
  std::string name_;
  Operators* operators_ = nullptr;
  mutable std::unique_ptr<Blas> blas_;
  mutable std::unique_ptr<HostBlock> staging_;
};

/// The description of this GPU for host code: the table's entry with its name, or the entry with
/// the same compute capability and this GPU's name and number of SMs.
Result<device::Description> DescriptionOf(const Device& device);

}  // namespace cupel::gpu
