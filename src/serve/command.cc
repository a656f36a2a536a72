// SPDX-License-Identifier: Apache-2.0
#include "serve/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/words.h"

namespace cupel::serve {

Result<std::vector<std::string>> SplitCommand(std::string_view text) {
  TRY_ASSIGN(std::vector<std::string> words, SplitWords(text));
  if (!words.empty()) return words;
  return Fail(ErrorCode::kInvalidArgument, "the worker command is empty",
              "write it as in --workers 'srun -n1 --gpus=1 cupel worker'");
}

Result<std::string> FindProgram(const std::string& name) {
  const auto can_run = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    if (can_run(name)) return name;
  } else {
    const char* path = std::getenv("PATH");
    std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
    for (std::string folder; std::getline(folders, folder, ':');) {
      std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
      if (can_run(candidate)) return candidate;
    }
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no program \"{}\" to start workers with", name),
              "name one that is on PATH, or its path, in --workers");
}

}  // namespace cupel::serve
