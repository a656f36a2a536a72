// SPDX-License-Identifier: Apache-2.0
#include "gpu/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cupel::gpu {
namespace {

constexpr uint64_t kPage = uint64_t{2} << 20;  // the driver's mapping unit
constexpr double kMostOfMemory = 0.9;          // share that one block can get on an idle GPU

}  // namespace

Result<Block> Block::Allocate(const Device& device, uint64_t bytes) {
  CuPointer address = 0;
  const uint64_t capacity = (std::max<uint64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  const CuResult code = device.driver().memory_allocate(&address, capacity);
  if (code == 0) return Block(device, address, bytes, capacity);
  size_t free = 0, total = 0;
  const bool known = device.driver().memory_info(&free, &total) == 0;
  const bool others =
      known && static_cast<double>(capacity) < kMostOfMemory * static_cast<double>(total);
  return Fail(others ? ErrorCode::kBusy : ErrorCode::kEnvironment,
              fmt::format("{} does not have {} MiB of free memory: {}", device.name(), bytes >> 20,
                          device.driver().Describe(code)),
              "end other programs on that GPU, or choose another GPU with --device gpu:N");
}

Block::Block(Block&& other) noexcept
    : device_(other.device_),
      address_(std::exchange(other.address_, 0)),
      bytes_(other.bytes_),
      capacity_(other.capacity_) {}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

Status Block::Fill(uint32_t word) const {
  const Driver& driver = device_->driver();
  return driver.Check(driver.fill_32(address_, word, capacity_ / sizeof word, device_->stream()),
                      "filling memory");
}

Block::~Block() {
  if (address_ != 0) device_->driver().memory_free(address_);
}

Result<HostBlock> HostBlock::Allocate(const Device& device, size_t bytes) {
  void* data = nullptr;
  const Driver& driver = device.driver();
  TRY(driver.Check(driver.host_allocate(&data, std::max<size_t>(bytes, 1)),
                   "allocating page-locked memory"));
  return HostBlock(device, data);
}

Result<HostBlock> HostBlock::CopyOf(const Device& device, std::span<const std::byte> bytes) {
  TRY_ASSIGN(HostBlock block, Allocate(device, bytes.size()));
  if (!bytes.empty()) std::memcpy(block.data(), bytes.data(), bytes.size());
  return block;
}

HostBlock::HostBlock(HostBlock&& other) noexcept
    : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}

HostBlock& HostBlock::operator=(HostBlock&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  return *this;
}

HostBlock::~HostBlock() {
  if (data_ != nullptr) device_->driver().host_free(data_);
}

}  // namespace cupel::gpu
