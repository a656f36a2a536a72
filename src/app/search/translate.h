// Lets models write a first correct CUDA kernel for a PyTorch operation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "evolve/translator.h"

namespace cupel::app {

struct TranslateReport {
  std::filesystem::path folder;  // of the run
  std::vector<evolve::Attempt> attempts;
  bool accepted = false;
  std::filesystem::path kernel;     // file of the accepted kernel
  std::optional<double> objective;  // its time
  std::string objective_kind;
  Json document;  // cupel.translation/1
  Status status;  // an Error: the kernel could not be written
};

/// Errors: wrong options; the run stopped early and can be continued.
Result<TranslateReport> Translate(const TranslateOptions& options, Events& events);

}  // namespace cupel::app
