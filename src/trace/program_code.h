// The code that a Python program brings: its extensions, its kernels of Triton, and kernels that it
// compiles from CUDA source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "build/build.h"
#include "build/sources.h"

namespace cupel::trace {

/// Something that a program asked cupel to compile. Names and texts come from hostile code.
struct ProgramCode {
  enum class Kind { kExtension, kTriton, kKernels } kind = Kind::kExtension;
  std::string name;  // of the extension, of the kernel's function, or of the source
  /// What was compiled: the extension's sources with their headers, the kernel's PTX, or the source
  /// of kernels. Names are relative.
  std::vector<build::SourceFile> files;
  build::SourcesOutcome built;
};

/// "extension", "triton" or "kernels": for JSON.
std::string_view NameOf(ProgramCode::Kind kind);
/// For people: "kernel of Triton".
std::string_view DescriptionOf(ProgramCode::Kind kind);

}  // namespace cupel::trace
