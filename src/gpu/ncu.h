// Runs Nsight Compute's command line over one call of a candidate (one_shot.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/ncu_report.h"
#include "gpu/one_shot.h"

namespace cupel::gpu {

/// $CUPEL_NCU, else ncu on PATH, of the CUDA toolkit, or installed on its own. kEnvironment without
/// one.
Result<std::filesystem::path> FindNcu();

struct NcuReport {
  std::string version;             // "2025.3.1.0"; empty when ncu does not say
  std::vector<NcuKernel> kernels;  // in the order of the launches, cupel's own copies left out
};

/// At most so many launches of a call are profiled: each is replayed dozens of times.
inline constexpr int kMostProfiledLaunches = 32;

/// Profiles the call that lies in `folder`, where it also leaves its report. Caches are flushed
/// before each replay; clocks are left as they are.
Result<NcuReport> ProfileWithNcu(const std::filesystem::path& ncu,
                                 const std::filesystem::path& folder,
                                 const OneShotOptions& options);

/// What went wrong, from all that ncu printed: a sentence with its remedy.
Error NcuTrouble(std::string_view printed);

}  // namespace cupel::gpu
