// SPDX-License-Identifier: Apache-2.0
#include "os/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "os/fd.h"

namespace cupel::os {

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  const auto fail = [&](const char* why) {
    return Fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot map {}: {}", path.string(), why));
  };
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail(std::strerror(errno));
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return fail(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return fail("not a regular file");
  MappedFile file;
  if (info.st_size == 0) return file;
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return fail(std::strerror(errno));
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  return file;
}

Result<MappedFile> MappedFile::Zeros(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("cannot reserve {} GiB of address space: {}", bytes >> 30,
                            std::strerror(errno)),
                "raise the limit on virtual memory (ulimit -v)");
  }
  MappedFile zeros;
  zeros.data_ = static_cast<const std::byte*>(data);
  zeros.size_ = bytes;
  return zeros;
}

}  // namespace cupel::os
