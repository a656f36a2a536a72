// A read-only memory mapping of a file, of shared memory, or of zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace cupel::os {

/// Move-only; unmaps on destruction. An empty object maps nothing.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// Maps all of a regular file, private and read-only. An empty file maps nothing.
  static Result<MappedFile> Open(const std::filesystem::path& path);
  /// `bytes` zeros that take only address space, however many.
  static Result<MappedFile> Zeros(size_t bytes);

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// The same bytes, for hashes.
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace cupel::os
