// A GPU profile as one page of text, for people and for the models that propose the next kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/profile/gpu_profile.h"
#include "judge/launch_text.h"

namespace cupel::app {

inline constexpr size_t kPageLines = 60;  // each at most judge::kProfileWidth columns wide
inline constexpr size_t kMostKernelLines = 25;

/// Returns at most kPageLines lines; `title` is the first. Launches of one kernel with one shape
/// are grouped. The groups that take most time come first.
std::string GpuProfileText(const std::string& title, const GpuProfile& profile,
                           const judge::SourceText& source);

}  // namespace cupel::app
