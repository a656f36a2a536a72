// SPDX-License-Identifier: Apache-2.0
#include "task/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/hash.h"
#include "base/printable.h"
#include "base/spelling.h"
#include "os/files.h"
#include "os/path.h"
#include "task/config.h"
#include "task/heldout.h"
#include "task/reduced.h"

namespace cupel::task {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = 16u << 20;
constexpr size_t kMaxModules = 256;

Result<Json> ReadJsonFile(const fs::path& path) {
  TRY_ASSIGN(const std::string text, os::ReadFile(path, kMaxFileBytes));
  return ParseJson(text, path.string());
}

/// Hashes the task's code and settings: the direction's function file, the modules in the same
/// folder that it may import, and the configurations.
Status HashSources(const fs::path& folder, Direction direction, const std::string& config,
                   Sha256& hash) {
  const std::string other =
      fmt::format("func_{}.py", direction == Direction::kForward ? "backward" : "forward");
  std::vector<fs::path> modules;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".py" || entry.path().filename() == other) continue;
    if (os::IsFile(entry.path())) modules.push_back(entry.path());
    if (modules.size() > kMaxModules) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} contains too many .py files", folder.string()),
                  "keep one task per folder");
    }
  }
  std::sort(modules.begin(), modules.end());
  for (const fs::path& module : modules) {
    TRY_ASSIGN(const std::string code, os::ReadFile(module, kMaxFileBytes));
    hash.Field(module.filename().string());
    hash.Field(code);
  }
  hash.Field(config);
  return {};
}

Status LoadDirection(Task& task, Direction direction, const Json& extra) {
  const auto index = static_cast<size_t>(direction);
  const std::string_view name = Name(direction);
  const fs::path code = task.path / fmt::format("func_{}.py", name);
  if (!os::IsFile(code)) return {};
  const fs::path config_path = task.path / fmt::format("config_{}.json", name);
  if (!os::IsFile(config_path)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the task folder {} has no config_{}.json", task.path.string(), name),
                "write one with single_input_configs, single_init_configs and "
                "single_shared_configs (lists of keyword arguments; docs/formats/task.md)");
  }
  TRY_ASSIGN(const std::string config_text, os::ReadFile(config_path, kMaxFileBytes));
  TRY_ASSIGN(const Json config, ParseJson(config_text, config_path.string()));
  std::vector<Setting>& settings = task.settings[index];
  const std::string what = config_path.string();
  TRY(AppendSettings(config, "single_", SettingKind::kSingle, what, settings));
  TRY(AppendSettings(config, "multi_", SettingKind::kMulti, what, settings));
  const std::string heldout = fmt::format("heldout_{}", name);
  if (extra.contains(heldout)) {
    TRY(AppendSettings(extra[heldout], "", SettingKind::kHeldout,
                       fmt::format("{} ({})", (task.path / "task.json").string(), heldout),
                       settings));
  }
  const std::string emulator = fmt::format("emulator_{}", name);
  if (extra.contains(emulator)) {
    TRY_ASSIGN(task.caps[index],
               ReadCaps(extra[emulator], settings,
                        fmt::format("{}: {}", (task.path / "task.json").string(), emulator)));
  }
  if (settings.empty()) settings.push_back(Setting{.id = "single-0"});
  if (settings.back().kind != SettingKind::kHeldout) {
    for (Setting& derived : DeriveHeldout(settings.front())) settings.push_back(std::move(derived));
  }
  Sha256 hash;
  TRY(HashSources(task.path, direction, config_text, hash));
  task.content_hash[index] = hash.Hex();
  task.code[index] = code;
  const fs::path baseline = task.path / fmt::format("{}.cu", name);
  if (os::IsFile(baseline)) task.baseline[index] = baseline;
  return {};
}

/// "allowed", "none", or a list of names.
Result<AllowedOperators> ReadOperators(const Json& extra, const std::string& what) {
  if (extra["operators"].is_array()) {
    TRY_ASSIGN(const auto names, JsonStringList(extra, "operators", what));
    auto allowed = AllowOnly(names);
    if (!allowed) allowed.error().message = what + ": \"operators\": " + allowed.error().message;
    return allowed;
  }
  TRY_ASSIGN(const std::string text, JsonString(extra, "operators", what));
  if (text == "allowed" || text == "none") return ParseAllowedOperators(text);
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: \"operators\" is \"{}\", not \"allowed\", \"none\" or a list of names", what,
                  Printable(text.substr(0, 80))));
}

/// Rejects unknown members: a misspelt limit would otherwise be ignored silently.
Status CheckMembers(const Json& extra, const std::string& what) {
  static constexpr std::string_view kKnown[] = {"title",
                                                "domain",
                                                "heldout_forward",
                                                "heldout_backward",
                                                "emulator_forward",
                                                "emulator_backward",
                                                "imported_from",
                                                "operators",
                                                "sha256"};
  for (const auto& [key, value] : extra.items()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: unknown member \"{}\"", what, key.substr(0, 80)),
                fmt::format("known members: {} (docs/formats/task.md)", fmt::join(kKnown, ", ")));
  }
  return {};
}

Result<Task> LoadFolder(const fs::path& folder) {
  Task task;
  task.path = folder;
  task.name = fs::absolute(folder).lexically_normal().filename().string();
  if (task.name.empty()) {  // a trailing slash
    task.name = fs::absolute(folder).lexically_normal().parent_path().filename().string();
  }
  task.title = task.name;
  Json extra = Json::object();
  const fs::path extra_path = folder / "task.json";
  if (os::IsFile(extra_path)) {
    TRY_ASSIGN(extra, ReadJsonFile(extra_path));
    if (!extra.is_object()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: not a JSON object", extra_path.string()));
    }
    TRY(CheckMembers(extra, extra_path.string()));
    if (extra.contains("title")) {
      TRY_ASSIGN(task.title, JsonString(extra, "title", extra_path.string()));
    }
    if (extra.contains("operators")) {
      TRY_ASSIGN(task.operators, ReadOperators(extra, extra_path.string()));
    }
    if (extra.contains("domain")) {
      TRY_ASSIGN(task.domain, ReadDomain(extra["domain"], extra_path.string()));
    }
  }
  TRY(LoadDirection(task, Direction::kForward, extra));
  TRY(LoadDirection(task, Direction::kBackward, extra));
  TRY_ASSIGN(task.named_baselines, FindNamedBaselines(folder));
  if (!task.Has(Direction::kForward) && !task.Has(Direction::kBackward)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not a task folder: it has no func_forward.py or "
                            "func_backward.py",
                            folder.string()),
                "a task folder needs func_forward.py (forward_fn, Model, get_inputs) and "
                "config_forward.json, or the same for backward");
  }
  return task;
}

Result<Task> LoadProblem(const fs::path& file) {
  TRY_ASSIGN(const std::string code, os::ReadFile(file, kMaxFileBytes));
  for (const char* needed : {"Model", "get_inputs"}) {
    if (code.find(needed) == std::string::npos) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is not a KernelBench problem: it does not define {}",
                              file.string(), needed),
                  "a problem file must define Model, get_inputs and get_init_inputs");
    }
  }
  Task task;
  task.format = Format::kKernelBench;
  task.operators.all = true;
  task.path = file;
  task.name = file.stem().string();
  task.title = task.name;
  task.code[0] = file;
  task.settings[0].push_back(Setting{.id = "single-0"});
  task.content_hash[0] = Sha256Hex(code);
  return task;
}

}  // namespace

Result<std::string> QuestionHash(const Task& task, Direction direction) {
  Sha256 hash;
  hash.Field(task.content_hash[static_cast<int>(direction)]);
  const fs::path extra = task.path / "task.json";
  if (os::IsFolder(task.path) && os::IsFile(extra)) {
    TRY_ASSIGN(const std::string text, os::ReadFile(extra, kMaxJsonBytes));
    hash.Field(text);
  }
  return hash.Hex();
}

Result<Task> LoadTask(const std::string& name_or_path, const fs::path& tasks_root) {
  const fs::path given(name_or_path);
  const bool plain = !name_or_path.empty() && given.filename() == given && given != "." &&
                     given != ".." && given.extension() != ".py";
  if (plain && os::IsFolder(tasks_root / given)) return LoadFolder(tasks_root / given);
  if (os::IsFolder(given)) return LoadFolder(given);
  if (os::IsFile(given)) {
    const std::string file = given.filename().string();
    if (file == "func_forward.py" || file == "func_backward.py") {
      return LoadFolder(given.has_parent_path() ? given.parent_path() : fs::path("."));
    }
    if (given.extension() == ".py") return LoadProblem(given);
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is not a task", name_or_path),
                "give a task's name, a task folder or a KernelBench problem (.py)");
  }
  const auto names = ListTasks(tasks_root);
  if (!names || names->empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("there is no task \"{}\"", name_or_path),
                fmt::format("give the path of a task folder or of a KernelBench problem ({} has "
                            "no tasks)",
                            tasks_root.string()));
  }
  return Fail(
      ErrorCode::kNotFound, fmt::format("there is no task \"{}\"", name_or_path),
      fmt::format("{}known tasks: {}; or give the path of a task folder or of a KernelBench "
                  "problem",
                  DidYouMean(name_or_path, *names), fmt::join(*names, ", ")));
}

Result<std::vector<std::string>> ListTasks(const fs::path& tasks_root) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(tasks_root, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (os::IsFile(path / "func_forward.py") || os::IsFile(path / "func_backward.py")) {
      names.push_back(path.filename().string());
    }
  }
  if (error) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("cannot list tasks in {}: {}", tasks_root.string(), error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cupel::task
