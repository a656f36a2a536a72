// SPDX-License-Identifier: Apache-2.0
#include "app/suite/suite_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "app/candidate.h"
#include "app/kernel_list.h"
#include "app/tasks/task_files.h"
#include "base/hash.h"
#include "base/name_some.h"
#include "build/sources.h"
#include "os/files.h"
#include "os/path.h"
#include "task/task.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostItems = 100'000;
constexpr size_t kMostRemarks = 100;

/// The direction of a kernel file in a task's folder, from its name.
task::Direction DirectionOfName(const fs::path& kernel) {
  const std::string stem = kernel.stem().string();
  return stem.starts_with("backward") || stem.ends_with("_backward") ? task::Direction::kBackward
                                                                     : task::Direction::kForward;
}

/// The files of a folder whose names `wanted` accepts, sorted.
std::vector<fs::path> KernelsIn(const fs::path& folder, bool (*wanted)(const fs::path&)) {
  std::vector<fs::path> kernels;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (wanted(entry->path()) && os::IsFile(entry->path())) {
      kernels.push_back(entry->path());
    }
  }
  std::sort(kernels.begin(), kernels.end());
  return kernels;
}

bool IsCuda(const fs::path& name) { return name.extension() == ".cu"; }

/// A path of a folder, without a slash at its end.
fs::path WithoutSlash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

/// The folders in `folder` that are kernels of several files, sorted.
std::vector<fs::path> KernelFoldersIn(const fs::path& folder) {
  std::vector<fs::path> kernels;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!os::IsFolder(entry->path())) continue;
    if (!KernelsIn(entry->path(), IsCuda).empty()) kernels.push_back(entry->path());
  }
  std::sort(kernels.begin(), kernels.end());
  return kernels;
}

class Lister {
 public:
  Lister(const SuiteInputs& inputs, fs::path tasks_root)
      : inputs_(inputs), tasks_root_(std::move(tasks_root)) {}

  Result<SuiteList> List() {
    const fs::path& input = inputs_.input;
    const bool listed = os::IsFile(input) && input.extension() != ".py";
    if (!inputs_.kernels.empty() && !os::IsFolder(inputs_.kernels)) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("there is no folder {}", inputs_.kernels.string()),
                  "give a folder of kernels with --kernels");
    }
    if (listed) {
      TRY(ReadKernelList(input, [this](const ListedKernel& one) { return AddListed(one); }));
    } else {
      TRY_ASSIGN(const auto tasks, Tasks());
      for (const TaskFile& task : tasks) TRY(AddTask(task));
      NoteUnused(tasks);
    }
    if (!list_.items.empty()) return std::move(list_);
    if (listed) {
      return Fail(ErrorCode::kNotFound, fmt::format("{} names no kernel to judge", input.string()),
                  "write lines like {\"kernel\": \"k.cu\", \"task\": \"mnist_linear\"}");
    }
    std::string what = fmt::format("no kernel was found for any task of {}", input.string());
    if (!list_.notes.empty()) what += fmt::format(" ({})", list_.notes.front());
    return Fail(ErrorCode::kNotFound, what,
                inputs_.kernels.empty() ? "give a folder of kernels with --kernels"
                                        : fmt::format("kernels must be {0}/TASK/forward.cu or "
                                                      "{0}/TASK/forward/NAME.cu (or .py)",
                                                      inputs_.kernels.string()));
  }

 private:
  Result<std::vector<TaskFile>> Tasks() const {
    const fs::path& input = inputs_.input;
    const bool one = os::IsFile(input) || os::IsFile(input / "func_forward.py") ||
                     os::IsFile(input / "func_backward.py");
    if (one) {
      // "tasks/x/" has no file name of its own.
      const fs::path path = fs::absolute(input).lexically_normal();
      const fs::path named = path.has_filename() ? path : path.parent_path();
      return std::vector<TaskFile>{
          {os::IsFile(input) ? named.stem().string() : named.filename().string(), named}};
    }
    if (!os::IsFolder(input)) {
      return Fail(
          ErrorCode::kNotFound, fmt::format("there is no {}", input.string()),
          "give a folder of tasks, a task, or a list with one line of JSON for each kernel");
    }
    return FindTaskFiles(input);
  }

  bool Wanted(task::Direction direction) const {
    return inputs_.direction == "both" || inputs_.direction == task::Name(direction);
  }

  /// Whether the task has settings of the requested kind. Adds a note if not.
  bool HasSettings(const std::string& name, const task::Task& task, task::Direction direction) {
    const auto& settings = task.SettingsOf(direction);
    if (inputs_.settings == "all" ||
        std::any_of(settings.begin(), settings.end(), [&](const task::Setting& setting) {
          return task::Name(setting.kind) == inputs_.settings;
        })) {
      return true;
    }
    Note(fmt::format("{} {} has no {} settings: skipped", name, task::Name(direction),
                     inputs_.settings));
    return false;
  }

  void Note(std::string note) {
    if (list_.notes.size() < kMostRemarks) list_.notes.push_back(std::move(note));
  }

  Status AddTask(const TaskFile& file) {
    const auto task = task::LoadTask(fs::absolute(file.path).string(), tasks_root_);
    if (!task) {
      Note(fmt::format("{} is not a valid task: {}", file.name, task.error().message));
      return {};
    }
    for (const task::Direction direction : task::kDirections) {
      if (!Wanted(direction)) continue;
      const auto kernels = KernelsFor(file.name, *task, direction);
      if (!task->Has(direction)) {
        for (const auto& [name, path] : kernels) {
          Note(fmt::format("the task {} has no {} direction for {}: skipped", file.name,
                           task::Name(direction), path.string()));
        }
        continue;
      }
      if (!HasSettings(file.name, *task, direction)) continue;
      if (kernels.empty()) {
        list_.without_kernel.emplace_back(file.name, task::Name(direction));
      }
      for (const auto& [name, path] : kernels) TRY(Add(file.name, *task, direction, name, path));
    }
    return {};
  }

  using Named = std::vector<std::pair<std::string, fs::path>>;
  Named KernelsFor(const std::string& name, const task::Task& task, task::Direction direction) {
    Named named;
    if (inputs_.kernels.empty()) {
      const fs::path& own = task.baseline[static_cast<int>(direction)];
      if (!own.empty()) named.emplace_back(own.filename().string(), own);
      return named;
    }
    const fs::path folder = inputs_.kernels / name;
    for (const char* extension : {".cu", ".py"}) {
      const fs::path alone = folder.string() + extension;
      if (direction == task::Direction::kForward && os::IsFile(alone)) {
        named.emplace_back(alone.filename().string(), alone);
      }
    }
    // In a task's own folder, Python files belong to the task.
    for (const fs::path& kernel :
         KernelsIn(folder, IsTaskFolder(folder) ? IsCuda : IsCandidateName)) {
      if (DirectionOfName(kernel) == direction) {
        named.emplace_back(kernel.filename().string(), kernel);
      }
    }
    for (const fs::path& kernel : KernelsIn(folder / task::Name(direction), IsCandidateName)) {
      named.emplace_back((fs::path(task::Name(direction)) / kernel.filename()).string(), kernel);
    }
    for (const fs::path& kernel : KernelFoldersIn(folder / task::Name(direction))) {
      named.emplace_back((fs::path(task::Name(direction)) / kernel.filename()).string(), kernel);
    }
    return named;
  }

  /// Notes folders and files whose names match no task. They are probably misspelled.
  void NoteUnused(const std::vector<TaskFile>& tasks) {
    if (inputs_.kernels.empty()) return;
    std::set<std::string> known;
    for (const TaskFile& task : tasks) {
      for (fs::path part = task.name; !part.empty(); part = part.parent_path()) {
        known.insert(part.string());
      }
    }
    std::error_code error;
    std::vector<std::string> unknown;
    for (fs::directory_iterator entry(inputs_.kernels, error), end; !error && entry != end;
         entry.increment(error)) {
      const fs::path name = entry->path().filename();
      const bool kernel = IsCandidateName(name) && known.count(name.stem().string()) == 0;
      if (kernel || (entry->is_directory(error) && known.count(name.string()) == 0)) {
        unknown.push_back(name.string());
      }
    }
    std::sort(unknown.begin(), unknown.end());
    if (unknown.empty()) return;
    Note(fmt::format("skipped these kernels because no task has their name: {}",
                     NameSome(unknown, 5)));
  }

  Status Add(const std::string& name, const task::Task& task, task::Direction direction,
             const std::string& kernel, const fs::path& path) {
    if (list_.items.size() == kMostItems) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("there are more than {} kernels", kMostItems),
                  "split them into several runs");
    }
    archive::SuiteItem item;
    item.task = name;
    item.direction = task::Name(direction);
    item.kernel = kernel;
    item.id = fmt::format("{}/{}/{}", item.task, item.direction, item.kernel);
    for (int copy = 2; !ids_.insert(item.id).second; ++copy) {
      item.kernel = fmt::format("{} ({})", kernel, copy);
      item.id = fmt::format("{}/{}/{}", item.task, item.direction, item.kernel);
    }
    item.task_path = fs::absolute(task.path).lexically_normal().string();
    item.kernel_path = WithoutSlash(fs::absolute(path).lexically_normal()).string();
    TRY_ASSIGN(item.task_sha256, task::QuestionHash(task, direction));
    if (os::IsFolder(path) && IsCandidateName(path)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is a folder with the name of a file", path.string()),
                  "rename the folder");
    }
    TRY_ASSIGN(const std::string source, build::TextOf(path));
    item.source_sha256 = Sha256Hex(source);
    list_.items.push_back(std::move(item));
    return {};
  }

  Status AddListed(const ListedKernel& listed) {
    if (!Wanted(listed.direction)) return {};
    auto known = tasks_.find(listed.task);
    if (known == tasks_.end()) {
      TRY_ASSIGN(task::Task task, task::LoadTask(listed.task, tasks_root_));
      known = tasks_.emplace(listed.task, std::move(task)).first;
    }
    if (!known->second.Has(listed.direction)) {
      return Fail(ErrorCode::kNotFound, fmt::format("task {} has no {} direction", listed.task,
                                                    task::Name(listed.direction)));
    }
    if (!HasSettings(known->second.name, known->second, listed.direction)) return {};
    if (!listed.sources.empty()) {
      return Fail(ErrorCode::kUnsupported, "a suite cannot use \"sources\" of a kernel",
                  "put the kernel's files into a folder, and name the folder as the kernel");
    }
    const fs::path kernel = WithoutSlash(listed.kernel.lexically_normal());
    return Add(known->second.name, known->second, listed.direction, kernel.string(), kernel);
  }

  SuiteInputs inputs_;
  fs::path tasks_root_;
  SuiteList list_;
  std::map<std::string, task::Task> tasks_;  // tasks that a list names
  std::set<std::string> ids_;
};

}  // namespace

Result<SuiteList> ListSuite(const SuiteInputs& inputs, const fs::path& tasks_root) {
  SuiteInputs resolved = inputs;
  // As for other commands, a name without a folder is one of the tasks that come with cupel.
  std::error_code ignored;
  const bool is_name = !inputs.input.empty() && !inputs.input.has_parent_path();
  if (is_name && !fs::exists(inputs.input, ignored) && os::IsFolder(tasks_root / inputs.input)) {
    resolved.input = tasks_root / inputs.input;
  }
  return Lister(resolved, tasks_root).List();
}

}  // namespace cupel::app
