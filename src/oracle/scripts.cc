// SPDX-License-Identifier: Apache-2.0
#include "oracle/scripts.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <vector>

#include "base/hash.h"
#include "os/files.h"

namespace cupel::oracle {
namespace {

constexpr size_t kMaxScriptBytes = 4u << 20;

}  // namespace

Result<std::string> ScriptsHash(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".py") files.push_back(entry.path());
  }
  if (files.empty()) {
    return Fail(ErrorCode::kIo, fmt::format("{} contains no Python code", folder.string()));
  }
  std::sort(files.begin(), files.end());
  Sha256 hash;
  for (const auto& file : files) {
    TRY_ASSIGN(const std::string text, os::ReadFile(file, kMaxScriptBytes));
    hash.Field(file.filename().string());
    hash.Field(text);
  }
  return hash.Hex();
}

}  // namespace cupel::oracle
