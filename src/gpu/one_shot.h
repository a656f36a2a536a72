// One call of a candidate in a separate process: `cupel gpu-replay FOLDER` executes the folder's
// plan on a GPU and ends. A profiler of that process (Nsight Compute) then sees only the
// candidate's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "build/image.h"
#include "plan/plan.h"

namespace cupel::gpu {

/// Limits in bytes: of the output of a program that runs or profiles a kernel, and of its message
/// within ours.
inline constexpr size_t kMostOutput = 64u << 20;
inline constexpr size_t kMostText = 300;

inline constexpr const char* kOneShotCommand = "gpu-replay";

/// Which program executes a folder, and on which GPU.
struct OneShotOptions {
  std::filesystem::path program = "/proc/self/exe";  // must implement the command kOneShotCommand
  int ordinal = 0;
  std::chrono::seconds deadline{300};
  std::stop_token stop = {};  // ends the program
  /// Reserves the GPU while the program runs; not called for anything else. Empty: no need.
  std::function<Result<std::shared_ptr<void>>()> reserve = {};
};

/// What `options` reserves; null if there is no need.
Result<std::shared_ptr<void>> Reserve(const OneShotOptions& options);

/// Writes plan.json, image-N.ptx, image-N.cubin if there is one, and argument-N.bin to `folder`.
/// The arguments are the storages of the tensor leaves in order (engine::Program::Execute).
Status WriteOneShot(const std::filesystem::path& folder, const plan::Plan& plan,
                    const build::Images& images,
                    std::span<const std::span<const std::byte>> arguments);

/// `gpu-replay FOLDER [--device N] [--cupti REPEATS]`. Prints the result as one line of JSON.
/// Returns 0 if the plan completed, 1 if it did not, 2 if it could not be started.
int OneShotMain(int argc, char** argv);

/// The command line that executes `folder`. The program comes first, with its real path, because
/// /proc/self/exe would be the profiler itself.
Result<std::vector<std::string>> OneShotArgv(const std::filesystem::path& folder,
                                             const OneShotOptions& options);

/// Durations of one of the plan's kernel launches in several calls.
struct LaunchTimes {
  std::string kernel;  // mangled
  std::vector<double> us;
};
struct TimedCalls {
  std::string clock;  // "CUPTI 130001"
  std::vector<LaunchTimes> launches;
};

/// Executes the folder several times in a separate process and reads its kernels' durations from
/// CUPTI (cupti.h), without cupel's own copies. Each call's arguments are copied to the GPU just
/// before, so small ones are in the L2 cache when the first kernel starts.
Result<TimedCalls> TimeOneShot(const std::filesystem::path& folder, int repeats,
                               const OneShotOptions& options);

}  // namespace cupel::gpu
