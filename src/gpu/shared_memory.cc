// SPDX-License-Identifier: Apache-2.0
#include "gpu/shared_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace cupel::gpu {

Result<SharedMemory> SharedMemory::Create() {
  const int fd = memfd_create("cupel-gpu", MFD_CLOEXEC);
  if (fd < 0) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("cannot make shared memory: {}", std::strerror(errno)));
  }
  return SharedMemory(fd);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

Result<std::span<std::byte>> SharedMemory::Map(uint64_t bytes) {
  if (bytes <= mapped_) return std::span(data_, bytes);
  struct stat now {};
  const bool grows = fstat(fd_.get(), &now) == 0 && static_cast<uint64_t>(now.st_size) < bytes;
  if (grows && ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) {
    return Fail(ErrorCode::kEnvironment, fmt::format("cannot make {} MiB of shared memory: {}",
                                                     bytes >> 20, std::strerror(errno)));
  }
  if (data_ != nullptr) munmap(data_, mapped_);
  data_ = nullptr;
  mapped_ = 0;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (at == MAP_FAILED) {
    return Fail(ErrorCode::kEnvironment, fmt::format("cannot map {} MiB of shared memory: {}",
                                                     bytes >> 20, std::strerror(errno)));
  }
  data_ = static_cast<std::byte*>(at);
  mapped_ = bytes;
  return std::span(data_, bytes);
}

}  // namespace cupel::gpu
