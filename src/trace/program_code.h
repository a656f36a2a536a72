// The code that a Python program brings: its extensions and its kernels of Triton.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "build/build.h"
#include "build/sources.h"

namespace cupel::trace {

/// Something that a program asked cupel to compile. Names and texts come from hostile code.
struct ProgramCode {
  enum class Kind { kExtension, kTriton } kind = Kind::kExtension;
  std::string name;  // of the extension, or of the kernel's function
  /// What was compiled: the extension's sources with their headers, or the kernel's PTX. Names are
  /// relative.
  std::vector<build::SourceFile> files;
  build::SourcesOutcome built;
};

}  // namespace cupel::trace
