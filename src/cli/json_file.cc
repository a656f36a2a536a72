// SPDX-License-Identifier: Apache-2.0
#include "cli/json_file.h"

#include "os/files.h"

namespace cupel::cli {

Status WriteJson(const std::filesystem::path& path, const Json& json) {
  if (path.empty()) return {};
  return os::WriteFileAtomically(path, DumpJson(json, 2) + "\n");
}

}  // namespace cupel::cli
