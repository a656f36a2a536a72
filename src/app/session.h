// Creates the parts that one use case needs: folders, engine, oracle, assay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/options.h"
#include "assay/assay.h"
#include "base/events.h"
#include "oracle/baseline.h"
#include "oracle/importer.h"
#include "task/allowed_operators.h"
#include "task/task.h"

namespace cupel::app {

/// Everything that judging needs. Not movable, because the assay borrows from the other members.
class Session {
 public:
  /// If `oracle` is null, uses this machine's own PyTorch. `events` must outlive the session.
  static Result<std::unique_ptr<Session>> Create(const Common& common, const Compile& compile,
                                                 Events& events, bool will_time = false,
                                                 std::unique_ptr<oracle::Oracle> oracle = nullptr);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  assay::Assay& assay() { return *assay_; }
  /// The emulator alone; null if a GPU judges alone.
  assay::Assay* emulator() { return emulator_assay_; }
  oracle::Oracle& oracle() { return *oracle_; }
  engine::Engine& engine() { return *engine_; }
  const assay::Parts& parts() const { return parts_; }
  /// Starts PyTorch on the engine's GPU, timed with the engine's clock.
  Result<std::unique_ptr<oracle::Baselines>> StartBaselines();

 private:
  Session() = default;
  Status AddEmulator(const Compile& compile, bool has_own_oracle);

  Common common_;
  std::unique_ptr<Events> emulator_events_;
  // Of the emulator beside a GPU: a session, or an engine if it shares the oracle.
  std::unique_ptr<Session> emulator_;
  std::unique_ptr<engine::Engine> emulator_engine_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<oracle::Oracle> oracle_;
  assay::Parts parts_;
  std::unique_ptr<assay::Assay> assay_, beside_gpu_;
  assay::Assay* emulator_assay_ = nullptr;
};

/// Returns N for "gpu:N" and 0 for "gpu". Error: any other device.
Result<int> GpuOrdinal(std::string_view device);

/// The processes that run Python code of candidates, in this installation.
Result<std::shared_ptr<trace::PythonPool>> MakePythons(const Common& common,
                                                       const Compile& compile);
/// The options for builds in this installation. They report to `events`, which must outlive them.
Result<build::Options> CompilerOptions(const Common& common, const Compile& compile,
                                       Events& events);
/// The options for an importer in this installation.
Result<oracle::ImportOptions> ImporterOptions(const Common& common, int seconds, uint64_t memory);

/// Loads the task that `target` names. Uses the smaller sizes for the emulator if it judges.
/// Error: the task lacks the direction.
Result<task::Task> LoadTarget(const Target& target, const Common& common);
bool OnEmulator(const Common& common);
/// The number of the GPU that --device names; nullopt for the emulator.
Result<std::optional<int>> GpuOf(const Common& common);
task::Direction DirectionOf(const Target& target);
/// The kinds of settings that `target` selects. Empty means all.
std::vector<task::SettingKind> KindsOf(const Target& target);

/// What --operators allows: nothing if it is "auto".
task::AllowedOperators OperatorsOf(const Target& target);

/// The question that these options ask the assay. Borrows `task`.
assay::Question QuestionOf(const task::Task& task, const Target& target, const Common& common);
/// Adds all that `cupel check` looks at by default: exact arithmetic, small integers, other inputs
/// and, if all settings are judged, other sizes.
void MakeThorough(assay::Question& question);
/// Divides a question among the engines that --engines selects, if it is for a GPU. What only the
/// emulator can do, other sizes, and most other inputs are left to it.
assay::Question ForEngines(assay::Question question, const Target& target, const Common& common);
/// Whether the emulator judges beside a GPU, or instead of it.
bool EmulatesBesideGpu(const Common& common);

/// Parses inputs in addition to the task's own: "all", "none" or names separated by commas.
Result<std::vector<task::Distribution>> DistributionsOf(const std::string& text);

}  // namespace cupel::app
