// SPDX-License-Identifier: Apache-2.0
#include "oracle/load.h"

#include <fmt/format.h>

namespace cupel::oracle {

std::string ChildTaskId(const task::Task& task, task::Direction direction) {
  const auto index = static_cast<size_t>(direction);
  return fmt::format("{} {} {}", task.content_hash[index], Name(direction),
                     task.code[index].string());
}

Status RequireDirection(const task::Task& task, task::Direction direction) {
  if (task.Has(direction)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("the task {} has no {} direction", task.name, Name(direction)),
              fmt::format("add func_{0}.py and config_{0}.json", Name(direction)));
}

Status LoadInChild(TorchChild& child, int64_t id, const task::Task& task, task::Direction direction,
                   bool on_cpu) {
  const auto index = static_cast<size_t>(direction);
  std::error_code ignored;
  const Json load = {
      {"op", "load"},
      {"id", id},
      {"task", ChildTaskId(task, direction)},
      {"path", std::filesystem::absolute(task.code[index], ignored).string()},
      {"name", task.name},
      {"hash", task.content_hash[index]},
      {"direction", Name(direction)},
      {"on_cpu", on_cpu},
      {"format", task.format == task::Format::kKernelBench ? "kernelbench" : "folder"}};
  TRY(child.Send(load));
  TRY_ASSIGN(const std::optional<Json> reply, child.Receive(id));
  std::string why;
  if (!reply) {
    why = fmt::format("Python ended while loading it: {}", child.ExitReason());
  } else if (reply->contains("failure")) {
    TRY_ASSIGN(why, JsonString(*reply, "failure", "oracle.py"));
  }
  if (why.empty()) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("the task {} does not load ({}): {}", task.name, task.code[index].string(), why),
      "correct the task's code");
}

}  // namespace cupel::oracle
