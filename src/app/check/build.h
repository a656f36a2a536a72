// Compiles one candidate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "build/build.h"
#include "records/reason.h"

namespace cupel::app {

/// What was compiled together.
struct BuiltCode {
  std::string kind;  // "kernel": the candidate itself. In a Python program: "extension", "triton"
  std::string name;  // in a Python program
  build::SourcesOutcome built;
};

struct BuildReport {
  std::filesystem::path kernel;  // as the user named it
  bool is_program = false;       // Python
  std::vector<BuiltCode> code;   // exactly one if it is not a program
  /// Why a program could not be recorded, or that it brings no code.
  std::optional<records::Reason> reason;
  bool unsupported = false;        // of `reason`
  std::vector<std::string> notes;  // of a program: what was ignored or assumed

  bool built() const;
  /// Whether a failure means "unsupported".
  bool is_unsupported() const;
};

/// A candidate that does not build is an outcome. A Python program is called at a setting of the
/// task, and what it asks for is compiled. Errors: cupel could not compile; those of RecordProgram.
Result<BuildReport> Build(const BuildOptions& options, Events& events);
/// The document "cupel.build/1".
Json ToJson(const BuildReport& report);

const char* SeverityName(build::Diagnostic::Severity severity);  // "error", "warning", "note"

}  // namespace cupel::app
