// One call of a candidate as a program of its own: `cupel gpu-replay FOLDER` executes the plan that
// lies in the folder on a GPU and ends. A profiler that watches a process (Nsight Compute) then
// sees the candidate's kernels and nothing else. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "build/image.h"
#include "plan/plan.h"

namespace cupel::gpu {

/// Of what a program that runs a kernel for us, or profiles it, writes; and of its message in ours.
inline constexpr size_t kMostOutput = 64u << 20;
inline constexpr size_t kMostText = 300;

inline constexpr const char* kOneShotCommand = "gpu-replay";

/// Who executes a folder, and where.
struct OneShotOptions {
  std::filesystem::path program = "/proc/self/exe";  // that knows the command kOneShotCommand
  int ordinal = 0;
  std::chrono::seconds deadline{300};
};

/// Fills `folder` with plan.json, image.cubin or image.ptx, and argument-N.bin: the storages of the
/// tensor leaves in order (engine::Program::Execute).
Status WriteOneShot(const std::filesystem::path& folder, const plan::Plan& plan,
                    const build::Image& image,
                    std::span<const std::span<const std::byte>> arguments);

/// `gpu-replay FOLDER [--device N] [--cupti REPEATS]`. Prints what happened as one line of JSON;
/// 0 when the plan came to its end, 1 when it did not, 2 when it could not be tried.
int OneShotMain(int argc, char** argv);

/// The command line that executes `folder`, the program first (by its real path: a profiler would
/// take /proc/self/exe for itself).
Result<std::vector<std::string>> OneShotArgv(const std::filesystem::path& folder,
                                             const OneShotOptions& options);

/// Durations of one kernel launch of the plan in several calls.
struct LaunchTimes {
  std::string kernel;  // mangled
  std::vector<double> us;
};
struct TimedCalls {
  std::string clock;  // "CUPTI 130001"
  std::vector<LaunchTimes> launches;
};

/// Executes the folder several times in a process of its own and asks CUPTI for the durations of
/// its kernels (cupti.h), cupel's own copies left out. Before each call its arguments are copied to
/// the GPU, so that small ones are in the L2 cache when the first kernel starts.
Result<TimedCalls> TimeOneShot(const std::filesystem::path& folder, int repeats,
                               const OneShotOptions& options);

}  // namespace cupel::gpu
