// Converts Python answers with load_inline to .cu files. extract.py analyses their text without
// running it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

namespace cupel::build {

struct ExtractOptions {
  std::filesystem::path script;  // extract.py
  std::string python;            // any Python from 3.9 on
  std::stop_token stop = {};     // ends the script
};

struct Extraction {
  std::string source;              // one .cu file that exports `forward`
  std::vector<std::string> notes;  // what was assumed
  std::vector<std::string> flags;  // that the answer passes to nvcc
};

/// What could not be analysed, and where: data about the answer.
struct ExtractRefusal {
  std::string message;
};

using ExtractOutcome = std::variant<Extraction, ExtractRefusal>;

/// `signature`: the task's signature from oracle::Importer::Signature. Without it, the answer's own
/// order of arguments is used. Errors: no such file, no Python,
/// kCancelled.
Result<ExtractOutcome> ExtractAnswer(const std::filesystem::path& answer,
                                     const std::optional<Json>& signature,
                                     const ExtractOptions& options);

}  // namespace cupel::build
