// SPDX-License-Identifier: Apache-2.0
#include "trace/launch_description.h"

#include <fmt/format.h>

#include "base/json.h"

namespace cupel::trace {
namespace {

/// A text as Python writes it. JSON's escapes are Python's.
std::string Literal(const std::string& text) { return DumpJson(Json(text)); }

}  // namespace

std::string ProgramOf(const build::Sources& description) {
  std::string codes;
  for (size_t i = 1; i < description.files.size(); ++i) {
    const build::SourceFile& file = description.files[i];
    codes += fmt::format("{}: {}, ", Literal(file.name), Literal(file.text));
  }
  return fmt::format("import launch_description\nModelNew = launch_description.model({}, {{{}}})\n",
                     Literal(description.files.front().text), codes);
}

}  // namespace cupel::trace
