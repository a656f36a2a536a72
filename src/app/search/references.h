// What a run's times are compared with: the least time that moving the data takes, and PyTorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "app/search/run.h"
#include "app/session.h"

namespace cupel::app {

/// Geometric means over the settings that a search compares.
struct References {
  double floor_us =
      0;             // to read the arguments and write the results once, and one launch; 0: unknown
  int settings = 1;  // that are compared
  // Measured beside the best kernel, so only on a GPU:
  std::optional<double> eager_us, compile_us;
  std::map<std::string, double> named_us;  // of the baselines that the task names
};

/// The references that the run's archive has, or else the floor, which is then stored.
Result<References> ReferencesOf(OpenRun& run, Session& session, const task::Task& task,
                                task::Direction direction, const Target& target);

/// At the end of a run on a GPU: times PyTorch and the task's named baselines side by side with the
/// best kernel, and stores the times, unless the archive has them for this kernel. If PyTorch
/// cannot be timed, a note says why.
Status TimePyTorch(OpenRun& run, Session& session, const task::Task& task,
                   task::Direction direction, const Target& target,
                   const std::filesystem::path& best, int64_t candidate, Events& events);

}  // namespace cupel::app
