// Judges one setting of a task: its trials, one case at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "assay/assay.h"
#include "assay/loaded_images.h"
#include "plan/own_work.h"
#include "record/call_recorder.h"

namespace cupel::assay {

/// What judging a setting needs; all borrowed.
struct SettingContext {
  const Question* question = nullptr;
  const task::Setting* setting = nullptr;
  oracle::Oracle* oracle = nullptr;
  record::CallRecorder* recorder = nullptr;
  /// A second recorder, for calls that the candidate may refuse. A refusal makes a recorder forget
  /// earlier calls, which it needs to check that recordings agree.
  std::function<Result<record::CallRecorder*>()> spare_recorder;
  /// Of Image::filled_object; null if there is none.
  std::function<Result<record::CallRecorder*>()> filled_recorder;
  LoadedImages* loaded = nullptr;  // has those of the last recording
  /// Whether to try random numbers in the kernels' own variables. Correct barriers may then wait
  /// forever, which costs a GPU its whole deadline once.
  bool* may_scramble = nullptr;
  /// Over all settings: the mangled names of kernels that recorded calls launch.
  std::set<std::string>* launched = nullptr;
  std::set<std::string>* operators = nullptr;  // and the operators of PyTorch that they call
  plan::OwnWork* own_work = nullptr;           // and what had a part in results
  bool tries_controls = true;  // whether wrong answers must fail; false if that is known
  uint64_t seed = 0;
  std::stop_token stop;
  std::function<void(const std::string& stage)> begin_trial;

  void NoteWork(const plan::Plan& plan) const;
};

struct SettingResult {
  records::SettingReport report;
  std::optional<plan::Plan> plan;
  build::Images images;            // of the plan
  std::vector<std::string> notes;  // of the recording
  std::string torch_version;
  std::vector<record::Search> searches;  // of the last recording
};

/// Runs trials until one fails.
Result<SettingResult> JudgeSetting(const SettingContext& context);

}  // namespace cupel::assay
