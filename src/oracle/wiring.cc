// SPDX-License-Identifier: Apache-2.0
#include "oracle/wiring.h"

#include <fmt/format.h>

#include "oracle/environment.h"
#include "oracle/python.h"
#include "os/process.h"

namespace cupel::oracle {
namespace {

constexpr std::chrono::minutes kDeadline{30};
constexpr size_t kMaxReply = 16u << 20;

/// The last line of Python's output, which is the error.
std::string LastLine(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const size_t start = text.rfind('\n');
  return std::string(start == std::string_view::npos ? text : text.substr(start + 1))
      .substr(0, 500);
}

}  // namespace

Result<Json> LookAtWiring(const task::Task& task, std::span<const WiringQuestion> questions,
                          const WiringOptions& options) {
  TRY_ASSIGN(const Python python, FindPython(options.python, options.memory, options.stop));
  Json request = Json::object();
  for (const WiringQuestion& question : questions) {
    const int d = static_cast<int>(question.direction);
    Json part{{"path", std::filesystem::absolute(task.code[d]).string()},
              {"direction", Name(question.direction)},
              {"name", task.name},
              {"hash", task.content_hash[d]},
              {"format", task.format == task::Format::kKernelBench ? "kernelbench" : "folder"},
              {"settings", Json::array()}};
    for (const task::Setting* setting : question.settings) {
      part["settings"].push_back(
          Json{{"id", setting->id}, {"init", setting->init}, {"inputs", setting->inputs}});
    }
    request[std::string(Name(question.direction))] = std::move(part);
  }
  os::SpawnOptions spawn;
  spawn.argv = {python.program, options.script.string()};
  spawn.env = ChildEnvironment();
  spawn.stop = options.stop;
  TRY_ASSIGN(const os::RunResult run,
             os::Run(std::move(spawn), kDeadline, kMaxReply, DumpJson(request)));
  if (!run.status.exited || run.status.code != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot examine the task's calls: {}: {}",
                                            run.status.Describe(), LastLine(run.err)));
  }
  return ParseJson(run.out, "wiring.py");
}

}  // namespace cupel::oracle
