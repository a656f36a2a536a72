// Kernels with labels that say what is wrong with them, for the calibration of reviewers
// (docs/formats/calibration.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "review/review.h"

namespace cupel::review {

struct LabelledKernel {
  std::string id;
  std::filesystem::path kernel;
  std::string task;  // a name, or a path
  bool backward = false;
  std::optional<Aspect> wrong;  // the first aspect that fails; none: a correct kernel
  std::string reason;           // the judge's reason code

  /// The correct verdict of the verifier of `aspect`. nullopt if an earlier aspect fails: a kernel
  /// that does not compile has no accesses, and bad accesses give no meaningful numbers.
  std::optional<bool> Fine(Aspect aspect) const;
};

/// Paths in the file are relative to its folder; a task without a slash is a name. Does not open
/// the kernels. Errors name the entry and what is wrong with it.
Result<std::vector<LabelledKernel>> ReadLabels(const std::filesystem::path& file);

}  // namespace cupel::review
