// SPDX-License-Identifier: Apache-2.0
#include "serve/command.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/words.h"
#include "os/programs.h"

namespace cupel::serve {

Result<std::vector<std::string>> SplitCommand(std::string_view text) {
  TRY_ASSIGN(std::vector<std::string> words, SplitWords(text));
  if (!words.empty()) return words;
  return Fail(ErrorCode::kInvalidArgument, "the worker command is empty",
              "write it as in --workers 'srun -n1 --gpus=1 cupel worker'");
}

Result<std::string> FindProgram(const std::string& name) {
  if (const auto found = os::FindProgram(name)) return found->string();
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no program \"{}\" to start workers with", name),
              "name one that is on PATH, or its path, in --workers");
}

}  // namespace cupel::serve
