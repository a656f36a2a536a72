// Results of filtering tasks for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/tasks/task_filter.h"

namespace cupel::app {

inline FilteredTask TaskOf(const std::string& name, std::vector<oracle::QualityCheck> checks) {
  FilteredTask task{name, "/" + name, "", {}};
  FilteredSetting setting;
  setting.setting.id = "single-0";
  setting.checks = std::move(checks);
  if (oracle::IsFlagged(setting.checks)) setting.verdict = FilterVerdict::kFlagged;
  task.settings.push_back(setting);
  return task;
}

inline oracle::QualityCheck CheckOf(const std::string& name, bool cupel,
                                    std::optional<bool> published) {
  oracle::QualityCheck check;
  check.name = name;
  check.status = cupel ? oracle::CheckStatus::kFlagged : oracle::CheckStatus::kOk;
  check.published = published;
  check.reason = cupel ? "because \x1b[31m of this" : "";
  return check;
}

inline FilterReport TwoTasks() {
  FilterReport report;
  report.tasks.push_back(TaskOf("good", {CheckOf("range", false, false)}));
  report.tasks.push_back(
      TaskOf("bad", {CheckOf("range", true, true), CheckOf("copy", true, std::nullopt)}));
  report.tasks.push_back(TaskOf("small", {CheckOf("range", false, true)}));
  report.tasks.push_back(FilteredTask{"broken", "/broken", "it has no config_forward.json", {}});
  return report;
}

}  // namespace cupel::app
