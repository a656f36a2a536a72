// What a suite run was asked for: kept in its store, so that a resume asks for the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"
#include "cli/options.h"

namespace cupel::cli {

/// All that decides the results. Where and by how many workers they come about is free.
Json SuiteConfig(const SuiteRunCommand& command);

/// The store's answers to what the command line leaves open with --resume.
Status TakeSuiteConfig(const Json& config, SuiteRunCommand& command);

/// The first member that is not as it was; empty: all are.
std::string ConfigDifference(const Json& then, const Json& now);

/// The same for --resume, of what the command line asks for by more than leaving it open.
std::string ResumeDifference(const Json& then, const SuiteRunCommand& command);

}  // namespace cupel::cli
