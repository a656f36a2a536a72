// SPDX-License-Identifier: Apache-2.0
#include "app/tasks/task_list.h"

#include <utility>

#include "os/folders.h"

namespace cupel::app {

Status ListTasks(const std::function<void(const task::Task& task)>& take) {
  TRY_ASSIGN(const auto data, os::DataDir());
  const auto root = data / "tasks";
  TRY_ASSIGN(const auto names, task::ListTasks(root));
  for (const std::string& name : names) {
    TRY_ASSIGN(const task::Task task, task::LoadTask(name, root));
    take(task);
  }
  return {};
}

Result<task::Task> TaskNamed(const std::string& name) {
  TRY_ASSIGN(const auto data, os::DataDir());
  return task::LoadTask(name, data / "tasks");
}

Json TaskJson(const task::Task& task) {
  Json json{{"name", task.name}, {"title", task.title}, {"path", task.path.string()}};
  for (const task::Direction direction : task::kDirections) {
    if (!task.Has(direction)) continue;
    const int d = static_cast<int>(direction);
    Json side{{"code", task.code[d].string()},
              {"baseline", task.baseline[d].string()},
              {"hash", task.content_hash[d]},
              {"emulator_at_most", task.caps[d]},
              {"settings", Json::array()}};
    for (const task::Setting& setting : task.SettingsOf(direction)) {
      side["settings"].push_back(Json{{"id", setting.id},
                                      {"kind", Name(setting.kind)},
                                      {"derived", setting.derived},
                                      {"init", setting.init},
                                      {"inputs", setting.inputs}});
    }
    json[std::string(Name(direction))] = std::move(side);
  }
  return json;
}

}  // namespace cupel::app
