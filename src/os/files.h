// Whole files: reads and writes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::os {

/// The whole file. Error if it is larger than `max_bytes` or not a regular file (FIFO, device).
Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes);
/// Writes to a temporary file in the same folder, syncs, renames. A full disk gives an error with a
/// remedy.
Status WriteFileAtomically(const std::filesystem::path& path, std::string_view bytes);
/// Creates a folder and those above it, unless they exist.
Status MakeFolders(const std::filesystem::path& folder);
/// The error of a failed system call on `path`, with a remedy for a full disk or for permissions.
/// `what` is a verb: "write".
tl::unexpected<Error> FailIo(std::string_view what, const std::filesystem::path& path, int error);

}  // namespace cupel::os
