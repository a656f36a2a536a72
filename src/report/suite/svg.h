// Draws one picture of a suite for a README: the speed-ups of the kernels over PyTorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/suite/scores.h"

namespace cupel::report {

/// SVG in light or dark colours, as the reader prefers. It has one row for each problem with an
/// accepted kernel and a speed-up, the greatest gain first, on a logarithmic axis. The gain is the
/// speed-up over the faster baseline. If there are no rows, the picture states why.
std::string SuiteSvg(const Suite& suite, const SuiteScores& scores);

}  // namespace cupel::report
