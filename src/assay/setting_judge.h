// Judges one setting of a task: its trials, one case at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "assay/assay.h"

namespace cupel::assay {

/// What judging a setting needs; borrowed.
struct SettingContext {
  const Question* question = nullptr;
  const task::Setting* setting = nullptr;
  oracle::Oracle* oracle = nullptr;
  record::Recorder* recorder = nullptr;
  engine::Program* program = nullptr;
  uint64_t seed = 0;
  std::function<void(const std::string& stage)> begin_trial;
};

struct SettingResult {
  judge::SettingReport report;
  std::optional<plan::Plan> plan;
  std::string torch_version;
};

/// Runs trials until the first that fails.
Result<SettingResult> JudgeSetting(const SettingContext& context);

}  // namespace cupel::assay
