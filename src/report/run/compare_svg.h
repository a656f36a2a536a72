// Draws a comparison of runs as one picture: how the gain grows with the kernels judged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/run/compare.h"

namespace cupel::report {

/// SVG in light or dark colours, as the reader prefers. Each run has one line of steps on a
/// logarithmic axis of gains over its start, with the name of its folder at the end. If no run has
/// a gain, the picture says so.
std::string ComparisonSvg(const RunComparison& comparison);

}  // namespace cupel::report
