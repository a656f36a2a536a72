// One picture of a suite for a README: how many times as fast as PyTorch the kernels are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/suite_scores.h"

namespace cupel::report {

/// SVG, light or dark as the reader's page: a row for each problem that has an accepted kernel and
/// a time beside a baseline, the greatest gain first, on a logarithmic axis. The gain is the
/// speed-up over the faster baseline. Nothing to show: a picture that says so.
std::string SuiteSvg(const Suite& suite, const SuiteScores& scores);

}  // namespace cupel::report
