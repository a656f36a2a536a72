// The result of a calibration, for later reviews: cupel.calibration/1
// (docs/formats/calibration.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "review/review.h"

namespace cupel::review {

/// The best options for the calibrated models: instructions, threshold, weights, and whether they
/// reflect. Errors: not a calibration file, numbers out of range.
Result<ReviewOptions> ReadCalibration(const std::filesystem::path& file);

/// The member `options` of such a file; `what` names it in messages.
Json ToJson(const ReviewOptions& options);
Result<ReviewOptions> OptionsFromJson(const Json& json, const std::string& what);

}  // namespace cupel::review
