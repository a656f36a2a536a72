// SPDX-License-Identifier: Apache-2.0
#include "app/kernel_list.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "os/files.h"

namespace cupel::app {
namespace {

constexpr size_t kMostListBytes = 64u << 20;
constexpr const char* kLineRemedy =
    "write each line like {\"kernel\": \"k.cu\", \"task\": \"mnist_linear\", \"backward\": false}";

Result<ListedKernel> ReadLine(std::string_view line, const std::string& where) {
  TRY_ASSIGN(const Json json, ParseJson(line, where));
  ListedKernel listed;
  TRY_ASSIGN(listed.kernel, JsonString(json, "kernel", where));
  TRY_ASSIGN(listed.task, JsonString(json, "task", where));
  if (json.contains("sources")) {
    TRY_ASSIGN(const Json* sources, JsonArray(json, "sources", where));
    for (const Json& source : *sources) {
      if (!source.is_string()) {
        return Fail(ErrorCode::kInvalidArgument, where + ": \"sources\" is not a list of files");
      }
      listed.sources.emplace_back(source.get<std::string>());
    }
  }
  if (json.contains("backward")) {
    TRY_ASSIGN(const bool backward, JsonBool(json, "backward", where));
    if (backward) listed.direction = task::Direction::kBackward;
  }
  return listed;
}

Status TakeLine(std::string_view line, const std::string& where,
                const std::function<Status(const ListedKernel& kernel)>& take) {
  TRY_ASSIGN(const ListedKernel listed, ReadLine(line, where));
  const Status taken = take(listed);
  if (taken) return {};
  Error error = taken.error();
  error.message = where + ": " + error.message;
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

Status ReadKernelList(const std::filesystem::path& list,
                      const std::function<Status(const ListedKernel& kernel)>& take) {
  TRY_ASSIGN(const std::string text, os::ReadFile(list, kMostListBytes));
  int number = 0;
  for (const std::string_view line : SplitLines(text)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", list.string(), number);
    const Status taken = TakeLine(line, where, take);
    if (taken) continue;
    Error error = taken.error();
    if (error.remedy.empty()) error.remedy = kLineRemedy;
    return tl::unexpected<Error>(std::move(error));
  }
  return {};
}

}  // namespace cupel::app
