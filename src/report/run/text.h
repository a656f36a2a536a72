// Formats a run for the terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/run/run.h"

namespace cupel::report {

/// `folder` is the run's folder, in which its best kernel is written as `best_file`.
std::string RunText(const Run& run, const std::string& folder, const std::string& best_file);

/// "$1.23", "$0.0042"; "nothing" for zero.
std::string Dollars(double usd);

}  // namespace cupel::report
