// The configuration of a suite run. The run's store keeps it, so that a resume uses the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/options.h"
#include "base/json.h"

namespace cupel::app {

/// Everything that determines the results. The number and place of the workers do not.
Json SuiteConfig(const SuiteRunOptions& options);

/// Fills in the options that the command line leaves open with --resume, from the store.
Status TakeSuiteConfig(const Json& config, SuiteRunOptions& options);

/// Describes the first member that differs; empty if none does.
std::string ConfigDifference(const Json& then, const Json& now);

/// The same for --resume. Only compares options of the command line that are not the default.
std::string ResumeDifference(const Json& then, const SuiteRunOptions& options);

}  // namespace cupel::app
