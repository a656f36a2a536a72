// Builds a kernel as a real PyTorch extension, then calls and times it from Python like published
// harnesses, next to PyTorch itself. The figures are only for comparison, never evidence: the
// kernel's own host code runs in the process that times it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"

namespace cupel::app {

/// The names of the timing methods in the document (docs/formats/confirm.md).
inline constexpr const char* kConfirmWays[] = {"events", "benchmark", "do_bench"};

struct ConfirmReport {
  Json document;       // cupel.confirm/1
  bool built = false;  // as a PyTorch extension
  bool right = false;  // built, and all results are correct
};

/// A kernel that does not build or returns wrong results is in the report. Errors: also
/// kEnvironment, if there is no GPU or CUDA does not start.
Result<ConfirmReport> Confirm(const ConfirmOptions& options, Events& events);

}  // namespace cupel::app
