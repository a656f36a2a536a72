// What a profile on a GPU says of one kernel, line by line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/gpu_profile.h"
#include "cli/profile_text.h"

namespace cupel::cli {

using Lines = std::vector<std::string>;

/// "1.05 MB": powers of 1000.
std::string Bytes(double bytes);
/// Breaks at spaces; at most `most` lines, the last of which then ends in "…".
Lines Wrap(const std::string& text, const std::string& indent, size_t most);

/// What bounds the launch, its occupancy, memory and waiting, the advice about it, and where the
/// emulator saw the work: the most important lines first.
Lines KernelLines(const GpuLaunch& launch, const GpuProfile& profile, const SourceText& source);

}  // namespace cupel::cli
