// What the verifiers are told to look for. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "review/review.h"

namespace cupel::review {

/// One wording of the instructions for an aspect.
struct Variant {
  std::string name;  // "default", or what stands between the dots of memory.NAME.md
  std::string text;
};

using Variants = std::array<std::vector<Variant>, kAspects>;

/// The texts that cupel was built with, alone.
Variants DefaultVariants();

/// Those and, after them in the order of their names, the files ASPECT.NAME.md of `folder`; a file
/// ASPECT.md there takes the default's place. Errors: a folder that is not there, a file that is
/// empty or larger than 64 KiB, or is named for no aspect.
Result<Variants> ReadVariants(const std::filesystem::path& folder);

// Embedded at build (cmake/embed.cmake).
const char* CompileMd();
const char* MemoryMd();
const char* NumericsMd();

}  // namespace cupel::review
