// Python answers with load_inline become .cu files: extract.py follows their text, and runs nothing
// of it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

namespace cupel::build {

struct ExtractOptions {
  std::filesystem::path script;  // extract.py
  std::string python;            // any Python from 3.9 on
};

struct Extraction {
  std::string source;              // one .cu file that exports `forward`
  std::vector<std::string> notes;  // what was assumed
  std::vector<std::string> flags;  // that the answer gives nvcc
};

/// What could not be followed, and where: data about the answer.
struct ExtractRefusal {
  std::string message;
};

using ExtractOutcome = std::variant<Extraction, ExtractRefusal>;

/// `signature`: what oracle::Importer::Signature says of the task; without it the answer's own
/// order of arguments stands. Errors: no such file, no Python.
Result<ExtractOutcome> ExtractAnswer(const std::filesystem::path& answer,
                                     const std::optional<Json>& signature,
                                     const ExtractOptions& options);

}  // namespace cupel::build
