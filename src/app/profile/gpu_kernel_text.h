// The lines about one kernel in a GPU profile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/profile/gpu_profile.h"
#include "judge/launch_text.h"

namespace cupel::app {

using Lines = std::vector<std::string>;

/// Formats a size with powers of 1000, like "1.05 MB".
std::string Bytes(double bytes);
/// Breaks `text` at spaces into at most `most` lines. If text is left out, the last line ends in
/// "…".
Lines Wrap(const std::string& text, const std::string& indent, size_t most);

/// The lines about one launch, the most important first: bottleneck, occupancy, memory, stalls,
/// advice, and the source lines where the emulator counted the work.
Lines KernelLines(const GpuLaunch& launch, const GpuProfile& profile,
                  const judge::SourceText& source);

}  // namespace cupel::app
