// Temporary folders.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/result.h"
#include "os/fd.h"

namespace cupel::os {

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

}  // namespace cupel::os
