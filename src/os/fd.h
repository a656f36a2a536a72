// File descriptors, temporary folders, and small file operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::os {

/// Owns a descriptor; move-only.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { Close(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int Release();
  void Close();

 private:
  int fd_ = -1;
};

/// A private (0700) folder that is removed with its content on destruction. Move-only. It is locked
/// (flock) while in use, so that SweepTempDirs can recognise abandoned folders.
class TempDir {
 public:
  /// Creates it in `parent`, or in $TMPDIR or /tmp if `parent` is empty. The name begins with
  /// "cupel-temp-".
  static Result<TempDir> Create(const std::filesystem::path& parent = {});
  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&& other) noexcept;
  ~TempDir();
  const std::filesystem::path& path() const { return path_; }

 private:
  TempDir() = default;
  /// False if a sweep has removed the folder in the meantime.
  Result<bool> Lock();
  std::filesystem::path path_;
  Fd lock_;
};

/// Removes the TempDirs in `parent` that killed processes of this user have left behind. Best
/// effort.
void SweepTempDirs(const std::filesystem::path& parent);

/// The whole file. Error if it is larger than `max_bytes` or not a regular file (FIFO, device).
Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes);
/// Writes to a temporary file in the same folder, syncs, renames. A full disk gives an error with a
/// remedy.
Status WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes);
/// Writes all bytes, handling short writes. `deadline` limits the wait for a stuck reader.
Status WriteAll(int fd, std::string_view bytes,
                std::optional<std::chrono::milliseconds> deadline = {});
/// Reads the available bytes, at least one. Returns 0 at the end of the stream, kTimeout at the
/// deadline, and kCancelled after RequestCancel().
Result<size_t> ReadSome(int fd, std::span<char> buffer,
                        std::optional<std::chrono::milliseconds> deadline = {});
/// $CUPEL_CACHE if set, else $XDG_CACHE_HOME/cupel or ~/.cache/cupel. Created with mode 0700.
Result<std::filesystem::path> CacheDir();
/// The folder of installed data (shim/, tasks/, oracle.py): $CUPEL_HOME, else found relative to the
/// program's folder.
Result<std::filesystem::path> DataDir();

}  // namespace cupel::os
