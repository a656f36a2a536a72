// A profile on a GPU as one page of text: for people, and for whoever proposes the next kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/gpu_profile.h"
#include "cli/profile_text.h"

namespace cupel::cli {

inline constexpr size_t kPageLines = 60;  // of kProfileWidth columns at most
inline constexpr size_t kMostKernelLines = 25;

/// At most kPageLines lines; `title` is the first. Launches of one kernel with one shape are told
/// together, the ones that take most time first.
std::string GpuProfileText(const std::string& title, const GpuProfile& profile,
                           const SourceText& source);

}  // namespace cupel::cli
