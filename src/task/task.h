// Tasks and their settings: readers of robust-kbench's folder format, of KernelBench problem files,
// and of our task.json. Only oracle/ runs Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "task/allowed_operators.h"
#include "task/distribution.h"
#include "task/named_baseline.h"

namespace cupel::task {

enum class Direction { kForward, kBackward };
inline constexpr Direction kDirections[] = {Direction::kForward, Direction::kBackward};
/// "forward" / "backward": also the name of the candidate's function.
std::string_view Name(Direction direction);

enum class SettingKind { kSingle, kMulti, kHeldout };
std::string_view Name(SettingKind kind);

/// One combination of constructor and input arguments.
struct Setting {
  std::string id;  // "single-0", "multi-3": stable, used in archives and verdicts
  SettingKind kind = SettingKind::kSingle;
  Json init = Json::object();    // keyword arguments of Model (shared ones included)
  Json inputs = Json::object();  // keyword arguments of get_inputs (shared ones included)
  /// If cupel derived this setting (task/heldout.h): the difference from the task's first setting
  /// ("batch_size=1"). Empty if the task lists it.
  std::string derived = {};
  /// "batch_size=2 (of 32)" if the sizes were reduced for the emulator (task/reduced.h).
  std::string reduced = {};
  /// The most seconds that computing a case may take. 0: as many as it needs.
  int reference_seconds = 0;
  /// "batch_size=64 num_input_features=128", for messages.
  std::string Describe() const;
};

enum class Format { kFolder, kKernelBench };

struct Task {
  std::string name;
  Format format = Format::kFolder;
  std::filesystem::path path;                  // the folder, or the problem file
  std::filesystem::path code[2];               // by Direction: the Python file; empty when absent
  std::vector<Setting> settings[2];            // by Direction; in the order single, multi, held-out
  std::filesystem::path baseline[2];           // forward.cu / backward.cu when present
  std::vector<NamedBaseline> named_baselines;  // of both directions; not a part of the question
  std::string title;                           // from task.json; default: the name
  std::string content_hash[2];  // SHA-256 of code + configs: the key of the case pool
  /// By Direction, if `reduced`: the settings as the task lists them.
  std::vector<Setting> listed[2] = {};
  bool reduced = false;  // the settings are reduced for the emulator (task/reduced.h)
  Json caps[2] = {Json::object(),
                  Json::object()};  // by Direction: the emulator's limits of keyword numbers
  Domain domain;                    // task.json: inputs to judge, and inputs not to try
  /// What candidates may let PyTorch compute, by default: everything for KernelBench problems, else
  /// what task.json says.
  AllowedOperators operators;

  bool Has(Direction direction) const { return !code[static_cast<int>(direction)].empty(); }
  const std::vector<Setting>& SettingsOf(Direction direction) const {
    return settings[static_cast<int>(direction)];
  }
};

/// A hash of everything that defines what a kernel must compute: content_hash and the current
/// text of task.json.
Result<std::string> QuestionHash(const Task& task, Direction direction);

/// `name_or_path`: a name under `tasks_root`, a folder, or a KernelBench .py file. Errors name the
/// missing or malformed file and what it should contain.
Result<Task> LoadTask(const std::string& name_or_path, const std::filesystem::path& tasks_root);

/// Names of the task folders below `tasks_root`, sorted.
Result<std::vector<std::string>> ListTasks(const std::filesystem::path& tasks_root);

}  // namespace cupel::task
