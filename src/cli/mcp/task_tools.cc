// Tasks as tools and as resources.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cli/mcp/brief.h"
#include "cli/mcp/guide.h"
#include "cli/mcp/schemas.h"
#include "cli/mcp/tools.h"
#include "os/files.h"
#include "task/task.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

namespace fs = std::filesystem;
using serve::McpAnswer;
using serve::McpCall;
using serve::McpText;

constexpr size_t kMostCode = 64u << 10;
constexpr size_t kMostTaskText = 96u << 10;
constexpr std::string_view kTaskUri = "cupel://tasks/";
constexpr std::string_view kGuideUri = "cupel://guide";

Json Texts(std::initializer_list<const char*> names) {
  Json properties = Json::object();
  for (const char* name : names) properties[name] = {{"type", "string"}};
  return properties;
}

Json Names(const task::Task& task) {
  Json directions = Json::array();
  for (const task::Direction direction : task::kDirections) {
    if (task.Has(direction)) directions.push_back(Name(direction));
  }
  return {{"name", task.name}, {"title", task.title}, {"directions", std::move(directions)}};
}

McpAnswer ListTasks(const McpSetting& setting) {
  const auto names = task::ListTasks(setting.tasks);
  if (!names) return serve::McpFailure(names.error());
  McpAnswer answer;
  Json tasks = Json::array();
  for (const std::string& name : *names) {
    const auto task = task::LoadTask(name, setting.tasks);
    if (!task) return serve::McpFailure(task.error());
    tasks.push_back(Names(*task));
    answer.text += fmt::format("{:28} {}{}\n", task->name, Printable(task->title),
                               task->Has(task::Direction::kBackward) ? " (and backward)" : "");
  }
  answer.structured = {{"tasks", std::move(tasks)}};
  return answer;
}

/// A file of the task, cut to what a model will read.
Result<std::string> Code(const fs::path& file) {
  TRY_ASSIGN(const std::string text, os::ReadFile(file, 4u << 20));
  return FirstLines(text, kMostCode);
}

Result<Json> ToJson(const task::Task& task, task::Direction direction) {
  const int d = static_cast<int>(direction);
  Json side{{"code_file", task.code[d].string()}};
  TRY_ASSIGN(side["code"], Code(task.code[d]));
  side["baseline_file"] = task.baseline[d].string();
  side["baseline"] = "";
  if (!task.baseline[d].empty()) {
    TRY_ASSIGN(side["baseline"], Code(task.baseline[d]));
  }
  side["settings"] = Json::array();
  for (const task::Setting& one : task.SettingsOf(direction)) {
    side["settings"].push_back(
        {{"id", one.id}, {"kind", Name(one.kind)}, {"description", one.Describe()}});
  }
  return side;
}

Result<McpAnswer> ShowTask(const McpSetting& setting, const std::string& name) {
  TRY_ASSIGN(const task::Task task, task::LoadTask(name, setting.tasks));
  McpAnswer answer;
  answer.structured = Names(task);
  std::string& text = answer.text;
  text = fmt::format("{}: {}\n", Printable(task.name), Printable(task.title));
  for (const task::Direction direction : task::kDirections) {
    if (!task.Has(direction)) continue;
    TRY_ASSIGN(const Json side, ToJson(task, direction));
    text += fmt::format("\n## {}\n\nSettings:\n", Name(direction));
    for (const Json& one : side["settings"]) {
      text += fmt::format("- {}: {}\n", one["id"].get<std::string>(),
                          Printable(one["description"].get<std::string>()));
    }
    text += fmt::format("\nPyTorch:\n```python\n{}```\n", side["code"].get<std::string>());
    const auto baseline = side["baseline"].get<std::string>();
    if (!baseline.empty()) text += fmt::format("\nA plain kernel:\n```cuda\n{}```\n", baseline);
    answer.structured[std::string(Name(direction))] = side;
  }
  text = FirstLines(text, kMostTaskText);
  answer.structured = Brief(std::move(answer.structured), {}, kMostTaskText);
  return answer;
}

/// The name in "cupel://tasks/NAME", or nullopt if there is no such task.
Result<std::optional<std::string>> TaskIn(const McpSetting& setting, const std::string& uri) {
  if (!uri.starts_with(kTaskUri)) return std::optional<std::string>();
  const std::string name = uri.substr(kTaskUri.size());
  TRY_ASSIGN(const auto names, task::ListTasks(setting.tasks));
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return std::optional<std::string>();
  }
  return std::optional<std::string>(name);
}

}  // namespace

std::vector<serve::McpTool> TaskTools(const McpSetting& setting) {
  serve::McpTool list;
  list.name = "task_list";
  list.title = "List the tasks";
  list.description = "Lists all tasks of the benchmark: PyTorch operations to write kernels for.";
  list.input = Arguments(Json::object(), {});
  list.output = AnswerOf(
      {{"tasks",
        {{"type", "array"}, {"items", AnswerOf(Texts({"name", "title"}), {"name", "title"})}}}},
      {"tasks"});
  list.run = [&setting](const Json&, McpCall&) { return ListTasks(setting); };

  serve::McpTool show;
  show.name = "task_show";
  show.title = "Show a task";
  show.description =
      "Shows one task: its PyTorch code, the arguments and sizes that a kernel is called with, and "
      "a plain kernel to start from, if there is one.";
  show.input =
      Arguments({{"task", TextSchema("Name, or a path to a task folder or .py file.")}}, {"task"});
  show.output = AnswerOf(Texts({"name", "title"}), {"name", "title", "directions"});
  show.run = [&setting](const Json& arguments, McpCall&) {
    auto answer = ShowTask(setting, arguments["task"].get<std::string>());
    return answer ? *std::move(answer) : serve::McpFailure(answer.error());
  };
  return {list, show};
}

Result<std::vector<serve::McpResource>> ListMcpResources(const McpSetting& setting) {
  TRY_ASSIGN(const auto names, task::ListTasks(setting.tasks));
  std::vector<serve::McpResource> all{
      {std::string(kGuideUri), "guide", "How to write kernels for cupel", "text/markdown"}};
  for (const std::string& name : names) {
    TRY_ASSIGN(const task::Task task, task::LoadTask(name, setting.tasks));
    all.push_back({std::string(kTaskUri) + name, name, task.title, "text/x-python"});
  }
  return all;
}

Result<std::vector<McpText>> ReadMcpResource(const McpSetting& setting, const std::string& uri) {
  if (uri == kGuideUri) return std::vector<McpText>{{uri, "text/markdown", kMcpGuide}};
  std::vector<McpText> texts;
  TRY_ASSIGN(const auto name, TaskIn(setting, uri));
  if (!name) return texts;
  TRY_ASSIGN(const task::Task task, task::LoadTask(*name, setting.tasks));
  for (const task::Direction direction : task::kDirections) {
    const int d = static_cast<int>(direction);
    for (const fs::path& file : {task.code[d], task.baseline[d]}) {
      if (file.empty()) continue;
      TRY_ASSIGN(std::string text, Code(file));
      texts.push_back({uri + "/" + file.filename().string(),
                       file.extension() == ".py" ? "text/x-python" : "text/x-cuda",
                       std::move(text)});
    }
  }
  return texts;
}

}  // namespace cupel::cli
