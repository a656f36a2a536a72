// The source of an extension: as several files, or as one .cu file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "build/sources.h"
#include "record/call_recorder.h"

namespace cupel::trace {

struct Sources {
  std::string name;  // of the extension, harmless in a file name
  std::string text;
  std::vector<std::string> flags;      // that the program passes to nvcc
  std::vector<std::string> libraries;  // the names of its TORCH_LIBRARY blocks
  bool has_files = false;  // they are next to the program, where they may include others
  /// Instead of `text`: files that are compiled each by itself.
  std::optional<build::Sources> files;
};

/// `question`: see Extensions::Build. Reads files that the program names: only below `folder`. A
/// refusal if there are none, or if they are too large.
Result<std::variant<Sources, record::Refusal>> SourcesOf(const Json& question,
                                                         const std::filesystem::path& folder);

}  // namespace cupel::trace
