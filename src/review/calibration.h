// What calibration found, as later reviews use it: cupel.calibration/1
// (docs/formats/calibration.md). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "review/review.h"

namespace cupel::review {

/// Options by which the models that were calibrated judge best: instructions, threshold, weights,
/// and whether they reflect. Errors: a file that is no calibration, numbers out of range.
Result<ReviewOptions> ReadCalibration(const std::filesystem::path& file);

/// The member `options` of such a file; `what` names it in messages.
Json ToJson(const ReviewOptions& options);
Result<ReviewOptions> OptionsFromJson(const Json& json, const std::string& what);

}  // namespace cupel::review
