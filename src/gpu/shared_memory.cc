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
                fmt::format("cannot create shared memory: {}", std::strerror(errno)));
  }
  return SharedMemory(fd);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, kMostShared);
}

Result<std::span<std::byte>> SharedMemory::Map(uint64_t bytes) {
  if (bytes > kMostShared) {
    return Fail(ErrorCode::kUnsupported, fmt::format("{} GiB of tensors is too much", bytes >> 30));
  }
  struct stat now{};
  const bool grows = fstat(fd_.get(), &now) == 0 && static_cast<uint64_t>(now.st_size) < bytes;
  if (grows && ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) {
    return Fail(ErrorCode::kEnvironment, fmt::format("cannot allocate {} MiB of shared memory: {}",
                                                     bytes >> 20, std::strerror(errno)));
  }
  if (data_ == nullptr) {
    void* at = mmap(nullptr, kMostShared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                    fd_.get(), 0);
    if (at == MAP_FAILED) {
      return Fail(ErrorCode::kEnvironment,
                  fmt::format("cannot map shared memory: {}", std::strerror(errno)),
                  "raise the limit of address space (ulimit -v)");
    }
    data_ = static_cast<std::byte*>(at);
  }
  return std::span(data_, bytes);
}

}  // namespace cupel::gpu
