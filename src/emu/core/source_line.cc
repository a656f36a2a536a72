// SPDX-License-Identifier: Apache-2.0
#include "emu/core/source_line.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

namespace cupel::emu {

SourceLine LineOf(const ptx::Module& module, const ptx::Location& location) {
  auto file_of = [&](const ptx::Location& at) -> std::string_view {
    if (at.file < 0 || static_cast<size_t>(at.file) >= module.files.size()) return {};
    return module.files[static_cast<size_t>(at.file)];
  };
  auto is_own = [](std::string_view file) {
    return file.ends_with(".cu") ||
           (!file.empty() && file.find("/include/") == file.npos && file.find("cuda") == file.npos);
  };
  ptx::Location best = location;
  ptx::Location at = location;
  for (int depth = 0; depth < 64; ++depth) {
    if (is_own(file_of(at))) {
      best = at;
      break;
    }
    if (at.inlined_at < 0 || static_cast<size_t>(at.inlined_at) >= module.inlined_sites.size())
      break;
    at = module.inlined_sites[static_cast<size_t>(at.inlined_at)].call;
  }
  return {std::string(file_of(best)), best.line};
}

std::string PlaceText(const std::string& file, int line) {
  if (line <= 0) return "";
  return fmt::format("{}:{}", std::filesystem::path(file).filename().string(), line);
}

}  // namespace cupel::emu
