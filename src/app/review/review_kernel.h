// Lets language models review a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "review/review.h"

namespace cupel::app {

struct KernelReview {
  review::Review review;
  review::ReviewOptions options;  // with the calibration
  Json document;                  // cupel.review/1
};

/// Errors: also kIo, if no reviewer gave a usable answer.
Result<KernelReview> ReviewKernel(const ReviewOptions& options, Events& events);

}  // namespace cupel::app
