// The configuration of a suite run. The run's store keeps it, so that a resume uses the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"
#include "cli/options.h"

namespace cupel::cli {

/// Everything that determines the results. The number and place of the workers do not.
Json SuiteConfig(const SuiteRunCommand& command);

/// Fills in the options that the command line leaves open with --resume, from the store.
Status TakeSuiteConfig(const Json& config, SuiteRunCommand& command);

/// Describes the first member that differs; empty if none does.
std::string ConfigDifference(const Json& then, const Json& now);

/// The same for --resume. Only compares options of the command line that are not the default.
std::string ResumeDifference(const Json& then, const SuiteRunCommand& command);

}  // namespace cupel::cli
