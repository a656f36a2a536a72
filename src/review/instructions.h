// The instructions for the verifiers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "review/review.h"

namespace cupel::review {

/// One wording of the instructions for an aspect.
struct Variant {
  std::string name;  // "default", or NAME of the file memory.NAME.md
  std::string text;
};

using Variants = std::array<std::vector<Variant>, kAspects>;

/// Only the built-in instructions.
Variants DefaultVariants();

/// The built-in instructions, followed by the files ASPECT.NAME.md of `folder`, ordered by name. A
/// file ASPECT.md replaces the default. Errors: the folder does not exist or has no such file; a
/// file is empty, larger than 64 KiB, or not named after an aspect.
Result<Variants> ReadVariants(const std::filesystem::path& folder);

// Embedded at build (cmake/embed.cmake).
const char* CompileMd();
const char* MemoryMd();
const char* NumericsMd();

}  // namespace cupel::review
