// Measures and tunes reviewers on labelled kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "review/calibrate.h"

namespace cupel::app {

struct Calibrated {
  review::CalibrationResult result;
  Json document;  // cupel.calibration/1
};

/// Errors: also kIo, if no reviewer gave a usable answer.
Result<Calibrated> CalibrateReviewers(const CalibrateOptions& options, Events& events);

}  // namespace cupel::app
