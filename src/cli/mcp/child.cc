// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp/child.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parse_number.h"
#include "os/lines.h"
#include "os/process.h"

namespace cupel::cli {
namespace {

constexpr size_t kLongestLine = 1u << 16;
constexpr size_t kMostError = 4096;

/// Reports a child's progress lines to the caller.
class ProgressReader {
 public:
  explicit ProgressReader(serve::McpCall& call) : call_(call) {}

  void Read(std::string_view bytes) {
    lines_.Feed(bytes);
    for (;;) {
      const auto line = lines_.Next();
      if (!line) lines_.Skip();
      if (!line || !*line) return;
      const Step step = StepOf(**line);
      call_.Show(**line, step.done, step.total);
    }
  }

 private:
  serve::McpCall& call_;
  os::Lines lines_{kLongestLine};
};

}  // namespace

Step StepOf(std::string_view line) {
  Step step;
  const size_t slash = line.find('/'), space = line.find(' ');
  if (slash == std::string_view::npos || space == std::string_view::npos || space < slash) {
    return step;
  }
  const auto done = ParseNumber<int64_t>(line.substr(0, slash));
  const auto total = ParseNumber<int64_t>(line.substr(slash + 1, space - slash - 1));
  if (!done || !total) return step;
  step.done = static_cast<double>(*done);
  step.total = static_cast<double>(*total);
  return step;
}

std::string LastError(std::string_view err) {
  constexpr std::string_view kMark = "cupel: ";
  size_t start = err.rfind("\ncupel: ");
  if (start != std::string_view::npos) {
    err.remove_prefix(start + 1 + kMark.size());
  } else if (err.starts_with(kMark)) {
    err.remove_prefix(kMark.size());
  }
  if (err.size() > kMostError) err.remove_prefix(err.size() - kMostError);
  return std::string(err);
}

Result<ChildResult> RunSelf(const std::vector<std::string>& arguments,
                            const std::filesystem::path& folder, std::chrono::seconds limit,
                            serve::McpCall& call) {
  os::SpawnOptions options;
  options.argv = {"/proc/self/exe"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  for (const std::string& argument : arguments) {
    if (argument.find('\0') != std::string::npos) {
      return Fail(ErrorCode::kInvalidArgument, "an argument contains a zero byte");
    }
  }
  options.env = os::CurrentEnvironment();
  options.env["TMPDIR"] = folder.string();
  ProgressReader reader(call);
  options.stop = call.stop();
  TRY_ASSIGN(os::RunResult run, os::Run(std::move(options), limit, 4u << 20, {},
                                        [&](std::string_view bytes) { reader.Read(bytes); }));
  if (run.status.timed_out) {
    return Fail(ErrorCode::kTimeout, fmt::format("the call took longer than {} s", limit.count()),
                "request less work (\"settings\": \"single\", fewer trials), or start the server "
                "with a longer --timeout");
  }
  if (!run.status.exited) {
    return Fail(ErrorCode::kInternal,
                fmt::format("cupel {} was {}", arguments.front(), run.status.Describe()),
                "if the machine ran out of memory, free some and try again");
  }
  return ChildResult{run.status.code, std::move(run.out), std::move(run.err)};
}

}  // namespace cupel::cli
