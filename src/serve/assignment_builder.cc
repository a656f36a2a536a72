// SPDX-License-Identifier: Apache-2.0
#include "serve/assignment_builder.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "build/sources.h"

namespace cupel::serve {

Result<Assignment> AssignmentBuilder::Prepare(const Item& item,
                                              const std::filesystem::path& tasks_root) {
  auto found = tasks_.find(item.task);
  if (found == tasks_.end()) {
    TRY_ASSIGN(task::Task task, task::LoadTask(item.task, tasks_root));
    TRY_ASSIGN(TaskBundle bundle, PackTask(task));
    Loaded read{std::move(task), std::move(bundle), {}};
    for (const task::Direction one : task::kDirections) {
      TRY_ASSIGN(read.question_hash[static_cast<int>(one)], task::QuestionHash(read.task, one));
    }
    found = tasks_.emplace(item.task, std::move(read)).first;
  }
  const Loaded& loaded = found->second;
  const task::Direction direction =
      item.backward ? task::Direction::kBackward : task::Direction::kForward;
  if (!loaded.task.Has(direction)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("task {} has no {} direction", loaded.task.name, task::Name(direction)),
                fmt::format("add func_{0}.py and config_{0}.json to {1}", task::Name(direction),
                            loaded.task.path.string()));
  }
  if (!item.task_sha256.empty() &&
      loaded.question_hash[static_cast<int>(direction)] != item.task_sha256) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the task {} has changed since the run began", loaded.task.name),
                "resume the run: it then uses the changed task");
  }
  Assignment work;
  work.item = item;
  work.item.judged = {};
  TRY_ASSIGN(work.source, build::TextOf(item.kernel));
  if (!item.source_sha256.empty() && Sha256Hex(work.source) != item.source_sha256) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has changed since the run began", item.kernel.string()),
                "resume the run: it then judges the changed kernel");
  }
  work.task_path = loaded.task.path.string();
  work.task_hash = loaded.task.content_hash[static_cast<int>(direction)];
  work.task = loaded.bundle;
  return work;
}

const task::Task* AssignmentBuilder::TaskOf(const Item& item) const {
  const auto found = tasks_.find(item.task);
  return found == tasks_.end() ? nullptr : &found->second.task;
}

}  // namespace cupel::serve
