// What calibration found, as later reviews use it: cupel.calibration/1
// (docs/formats/calibration.md). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/result.h"
#include "review/review.h"

namespace cupel::review {

/// Options by which the models that were calibrated judge best: instructions, threshold, weights,
/// and whether they reflect. Errors: a file that is no calibration, numbers out of range.
Result<ReviewOptions> ReadCalibration(const std::filesystem::path& file);

/// The members that ReadCalibration reads.
Json ToJson(const ReviewOptions& options);

}  // namespace cupel::review
