// SPDX-License-Identifier: Apache-2.0
#include "task/named_baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

#include "base/printable.h"
#include "os/files.h"
#include "os/path.h"

namespace cupel::task {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 32;
constexpr size_t kLongestName = 64;

/// Names with another meaning in options and tables.
constexpr std::string_view kReserved[] = {"best", "compile", "eager", "named", "none", "probe"};

/// As a name in Python, in ASCII.
bool IsIdentifier(std::string_view text) {
  const auto is_letter = [](char c) {
    return c == '_' || std::isalpha(static_cast<unsigned char>(c)) != 0;
  };
  return !text.empty() && text.size() <= kLongestName && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) {
           return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
         });
}

/// `where`: for the error.
Status CheckName(std::string_view name, const std::string& where) {
  if (!IsIdentifier(name)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: a baseline is named after its function, but \"{}\" is not a name "
                            "in Python",
                            Printable(where), Printable(name.substr(0, kLongestName))),
                "use letters, digits and '_'");
  }
  if (std::ranges::find(kReserved, name) == std::end(kReserved)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: no baseline may be called {}", Printable(where), name),
              "give it the name of its library");
}

}  // namespace

Result<std::vector<NamedBaseline>> FindNamedBaselines(const fs::path& folder) {
  std::vector<NamedBaseline> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder / "baselines", error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& file = entry->path();
    const std::string name = file.stem().string();
    const bool is_other = name.starts_with('_') || name.starts_with('.');
    if (file.extension() != ".py" || is_other || !os::IsFile(file)) continue;
    TRY(CheckName(name, file.string()));
    if (found.size() == kMostFiles) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("{} has more than {} baselines", (folder / "baselines").string(), kMostFiles),
          "keep the fastest ones");
    }
    found.push_back({name, file, name});
  }
  std::ranges::sort(found, {}, &NamedBaseline::name);
  return found;
}

Result<NamedBaseline> ParseNamedBaseline(std::string_view text) {
  const size_t colon = text.rfind(':');
  const std::string_view function = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const fs::path file(text.substr(0, std::min(colon, text.size())));
  if (file.extension() != ".py") {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\" does not name a baseline", Printable(text.substr(0, 200))),
                "write FILE.py:FUNCTION; the function takes the arguments of the task's function");
  }
  TRY(CheckName(function, file.string()));
  if (!os::IsFile(file)) {
    return Fail(ErrorCode::kNotFound, fmt::format("there is no file {}", Printable(file.string())),
                "write FILE.py:FUNCTION, with the path of an existing file");
  }
  std::error_code error;
  const fs::path whole = fs::absolute(file, error);
  return NamedBaseline{std::string(function), error ? file : whole, std::string(function)};
}

}  // namespace cupel::task
