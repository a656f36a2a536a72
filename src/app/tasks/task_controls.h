// Checks that the judge rejects wrong answers at each setting of a task.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "judge/controls.h"
#include "task/task.h"

namespace cupel::app {

struct SettingControls {
  const task::Setting* setting = nullptr;
  std::string no_reference;  // why there are no controls
  std::vector<records::Control> controls;
};
using OnControls = std::function<void(const SettingControls& result)>;

struct ControlsReport {
  Json document;           // cupel.controls/1
  bool can_judge = false;  // every setting whose reference runs can detect wrong answers
};

/// Tries one setting after the other, and calls `tried` after each.
Result<ControlsReport> TryControls(const ControlsOptions& options, Events& events,
                                   const OnControls& tried);

}  // namespace cupel::app
