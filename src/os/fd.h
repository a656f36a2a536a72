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

/// A private (0700) folder that is removed with all it holds on destruction. Move-only. It is
/// locked (flock) while it is used, by which SweepTempDirs tells it from an abandoned one.
class TempDir {
 public:
  /// Under `parent`, or $TMPDIR or /tmp when empty. The name begins with "cupel-temp-".
  static Result<TempDir> Create(const std::filesystem::path& parent = {});
  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&& other) noexcept;
  ~TempDir();
  const std::filesystem::path& path() const { return path_; }

 private:
  TempDir() = default;
  /// False where a sweep came first, and has removed the folder.
  Result<bool> Lock();
  std::filesystem::path path_;
  Fd lock_;
};

/// Removes what TempDirs of this user's processes that were killed outright have left in `parent`.
/// Best effort.
void SweepTempDirs(const std::filesystem::path& parent);

/// Whole file, at most `max_bytes`. Follows no FIFO or device.
Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes);
/// Writes to a temporary name beside `path`, syncs, renames. Says so when the disk is full.
Status WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes);
/// All bytes, handling short writes. `deadline` bounds a stuck reader.
Status WriteAll(int fd, std::string_view bytes,
                std::optional<std::chrono::milliseconds> deadline = {});
/// What is there, at least one byte; 0 at the end of the stream. Gives up at the deadline
/// (kTimeout) and on RequestCancel() (kCancelled).
Result<size_t> ReadSome(int fd, std::span<char> buffer,
                        std::optional<std::chrono::milliseconds> deadline = {});
/// $XDG_CACHE_HOME/cupel or ~/.cache/cupel; $CUPEL_CACHE wins. Created 0700.
Result<std::filesystem::path> CacheDir();
/// The folder of installed data (shim/, tasks/, oracle.py): $CUPEL_HOME, else found beside the
/// program.
Result<std::filesystem::path> DataDir();

}  // namespace cupel::os
