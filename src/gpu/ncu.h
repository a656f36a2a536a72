// Runs Nsight Compute's command line program on one call of a candidate (one_shot.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/ncu_report.h"
#include "gpu/one_shot.h"

namespace cupel::gpu {

/// $CUPEL_NCU, else ncu from PATH, from the CUDA toolkit, or from a separate installation.
/// kEnvironment if there is none.
Result<std::filesystem::path> FindNcu();

struct NcuReport {
  std::string version;             // "2025.3.1.0"; empty if ncu does not print it
  std::vector<NcuKernel> kernels;  // in launch order, without cupel's own copies
};

/// The maximum number of launches that are profiled in a call. Each is replayed dozens of times.
inline constexpr int kMostProfiledLaunches = 32;

/// Profiles the call in `folder` and leaves its report there, too. Flushes caches before each
/// replay. Does not change the GPU's clocks.
Result<NcuReport> ProfileWithNcu(const std::filesystem::path& ncu,
                                 const std::filesystem::path& folder,
                                 const OneShotOptions& options);

/// Finds the error in ncu's output. The message is empty if the output contains none.
Error NcuErrorIn(std::string_view printed);

}  // namespace cupel::gpu
