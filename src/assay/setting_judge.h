// Judges one setting of a task: its trials, one case at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>

#include "assay/assay.h"

namespace cupel::assay {

/// What judging a setting needs; borrowed.
struct SettingContext {
  const Question* question = nullptr;
  const task::Setting* setting = nullptr;
  oracle::Oracle* oracle = nullptr;
  record::Recorder* recorder = nullptr;
  /// For calls that the candidate may refuse: a refusal costs a recorder what it remembers of
  /// earlier calls, which the agreement between recordings rests on.
  std::function<Result<record::Recorder*>()> spare_recorder;
  engine::Program* program = nullptr;
  /// Whether random numbers in the kernels' own variables are worth a try: honest barriers may wait
  /// for ever with them, which costs a GPU its whole deadline, once.
  bool* may_scramble = nullptr;
  /// Of all settings: the kernels that recorded calls launch, by their mangled names.
  std::set<std::string>* launched = nullptr;
  uint64_t seed = 0;
  std::function<void(const std::string& stage)> begin_trial;

  void NoteLaunches(const plan::Plan& plan) const;
};

struct SettingResult {
  judge::SettingReport report;
  std::optional<plan::Plan> plan;
  std::string torch_version;
};

/// Runs trials until the first that fails.
Result<SettingResult> JudgeSetting(const SettingContext& context);

}  // namespace cupel::assay
