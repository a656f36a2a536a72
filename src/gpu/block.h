// Owned memory: of the GPU, and page-locked memory of the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/device.h"

namespace cupel::gpu {

/// Device memory, aligned to 512 bytes, with undefined contents. It takes whole pages of the GPU,
/// so that it is known which memory around it a kernel can reach. Borrows the device.
class Block {
 public:
  /// kEnvironment if the GPU's memory is too small. kBusy if other processes or this process use
  /// too much of it.
  static Result<Block> Allocate(const Device& device, uint64_t bytes);
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;
  ~Block();
  CuPointer address() const { return address_; }
  uint64_t bytes() const { return bytes_; }
  /// Enqueues a fill of all capacity() bytes with `word`.
  Status Fill(uint32_t word) const;
  uint64_t capacity() const { return capacity_; }  // bytes() and the rest of the last page

 private:
  Block(const Device& device, CuPointer address, uint64_t bytes, uint64_t capacity)
      : device_(&device), address_(address), bytes_(bytes), capacity_(capacity) {}
  const Device* device_;
  CuPointer address_;
  uint64_t bytes_, capacity_;
};

/// Page-locked memory of the host. Copies to and from it run at full speed, and copies in a graph
/// may read it at any time.
class HostBlock {
 public:
  static Result<HostBlock> Allocate(const Device& device, size_t bytes);
  static Result<HostBlock> CopyOf(const Device& device, std::span<const std::byte> bytes);
  HostBlock(HostBlock&& other) noexcept;
  HostBlock& operator=(HostBlock&& other) noexcept;
  ~HostBlock();
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  HostBlock(const Device& device, void* data) : device_(&device), data_(data) {}
  const Device* device_;
  void* data_;
};

}  // namespace cupel::gpu
