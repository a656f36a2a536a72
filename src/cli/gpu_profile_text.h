// A GPU profile as one page of text, for people and for the models that propose the next kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/gpu_profile.h"
#include "cli/profile_text.h"

namespace cupel::cli {

inline constexpr size_t kPageLines = 60;  // each at most kProfileWidth columns wide
inline constexpr size_t kMostKernelLines = 25;

/// Returns at most kPageLines lines; `title` is the first. Launches of one kernel with one shape
/// are grouped. The groups that take most time come first.
std::string GpuProfileText(const std::string& title, const GpuProfile& profile,
                           const SourceText& source);

}  // namespace cupel::cli
