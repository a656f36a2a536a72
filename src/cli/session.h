// Puts the parts together for one command: folders, engine, oracle, assay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/assay.h"
#include "cli/options.h"
#include "oracle/baseline.h"
#include "task/task.h"

namespace cupel::cli {

/// Everything that judging needs. Not movable: the assay borrows from the other members.
class Session {
 public:
  /// Without an `oracle`, this machine's own PyTorch.
  static Result<std::unique_ptr<Session>> Create(
      const Common& common, const Compile& compile,
      std::function<void(const assay::Progress&)> progress, bool will_time = false,
      std::unique_ptr<oracle::Oracle> oracle = nullptr);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  assay::Assay& assay() { return *assay_; }
  oracle::Oracle& oracle() { return *oracle_; }
  engine::Engine& engine() { return *engine_; }
  const assay::Parts& parts() const { return parts_; }
  /// PyTorch on the GPU that the engine uses, with the engine's clock.
  Result<std::unique_ptr<oracle::Baselines>> StartBaselines();

 private:
  Session() = default;
  Common common_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<oracle::Oracle> oracle_;
  assay::Parts parts_;
  std::unique_ptr<assay::Assay> assay_;
  std::function<void(const assay::Progress&)> progress_;
};

/// N of "gpu:N"; 0 of "gpu".
Result<int> GpuOrdinal(std::string_view device);

/// The options of a build in this installation.
Result<build::Options> BuildOptions(const Compile& compile);

/// The task a command names, with its direction checked; at the sizes for the emulator where that
/// is what judges.
Result<task::Task> LoadTarget(const Target& target, const Common& common);
bool OnEmulator(const Common& common);
/// The GPU that --device names; nothing for the emulator.
Result<std::optional<int>> GpuOf(const Common& common);
task::Direction DirectionOf(const Target& target);
/// Empty means all.
std::vector<task::SettingKind> KindsOf(const Target& target);

/// What a command asks of the assay; `task` is borrowed.
assay::Question QuestionOf(const task::Task& task, const Target& target, const Common& common);

/// Inputs beside the task's own: "all", "none" or names separated by commas.
Result<std::vector<task::Distribution>> DistributionsOf(const std::string& text);

/// Of the document that stands where --json names one and the command has no answer.
inline constexpr std::string_view kErrorSchema = "cupel.error/1";

/// Writes `json` to `path` when it is not empty.
Status WriteJson(const std::filesystem::path& path, const Json& json);

}  // namespace cupel::cli
