// `cupel task list` and `cupel task show`. Also starts `cupel task controls`.
// SPDX-License-Identifier: Apache-2.0
#include "task/task.h"

#include <fmt/format.h>

#include <cstdio>

#include "app/tasks/task_list.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

std::string Directions(const task::Task& task) {
  std::string text;
  for (const task::Direction direction : task::kDirections) {
    if (task.Has(direction)) text += fmt::format("{}{}", text.empty() ? "" : ", ", Name(direction));
  }
  return text;
}

Result<int> List(const TaskCommand& command) {
  Json all = Json::array();
  TRY(app::ListTasks([&all](const task::Task& task) {
    fmt::print("{:24} {:20} {}\n", Printable(task.name), Directions(task), Printable(task.title));
    all.push_back(app::TaskJson(task));
  }));
  TRY(WriteJson(command.show.json, Json{{"schema", "cupel.tasks/1"}, {"tasks", all}}));
  return 0;
}

Result<int> ShowTask(const TaskCommand& command) {
  TRY_ASSIGN(const task::Task task, app::TaskNamed(command.task));
  fmt::print("{}: {}\n{}\n", Printable(task.name), Printable(task.title),
             Printable(task.path.string()));
  for (const task::Direction direction : task::kDirections) {
    if (!task.Has(direction)) continue;
    const auto& baseline = task.baseline[static_cast<int>(direction)];
    fmt::print("\n{}   baseline: {}\n", Name(direction),
               baseline.empty() ? "none" : baseline.string());
    for (const task::Setting& setting : task.SettingsOf(direction)) {
      fmt::print("  {:12} {}{}\n", setting.id, Printable(setting.Describe()),
                 setting.derived.empty()
                     ? ""
                     : fmt::format("  (derived: {})", Printable(setting.derived)));
    }
    const Json& caps = task.caps[static_cast<int>(direction)];
    if (!caps.empty()) {
      fmt::print("  limits on the emulator: {}\n", Printable(DumpJson(caps)));
    }
  }
  Json json = app::TaskJson(task);
  json["schema"] = "cupel.task/1";
  TRY(WriteJson(command.show.json, json));
  return 0;
}

}  // namespace

Result<int> Run(const TaskCommand& command) {
  if (command.action == "controls") return RunTaskControls(command);
  return command.action == "show" ? ShowTask(command) : List(command);
}

}  // namespace cupel::cli
