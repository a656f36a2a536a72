// Compiles one candidate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "build/build.h"

namespace cupel::app {

/// A candidate that does not build is an outcome. Errors: cupel could not compile.
Result<build::Outcome> Build(const BuildOptions& options, Events& events);
/// The document "cupel.build/1".
Json ToJson(const build::Outcome& outcome, const std::filesystem::path& kernel);

const char* SeverityName(build::Diagnostic::Severity severity);  // "error", "warning", "note"

}  // namespace cupel::app
