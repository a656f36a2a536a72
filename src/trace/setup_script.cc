// SPDX-License-Identifier: Apache-2.0
#include "trace/setup_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/json.h"
#include "os/files.h"
#include "os/frames.h"
#include "record/protocol.h"
#include "trace/join.h"
#include "trace/messages.h"

namespace cupel::trace {
namespace {

namespace fs = std::filesystem;
using Setup = std::variant<SetupExtension, record::Refusal>;

constexpr size_t kMaxScript = 1u << 20;
constexpr size_t kMostNames = 5000;
constexpr size_t kMaxText = 64u << 10, kMaxTexts = 1u << 20;
constexpr size_t kMostItems = 256;  // of a list that the script makes
constexpr size_t kLongestItem = 1000;
constexpr std::chrono::seconds kScriptDeadline{30};

/// The names of the files below a folder, without hidden ones and links.
Json NamesBelow(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (names.size() >= kMostNames) break;
    if (entry->path().filename().string().starts_with('.') || entry->is_symlink(error)) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(error)) {
      names.push_back(entry->path().lexically_relative(folder).string());
    }
  }
  std::sort(names.begin(), names.end());
  // Names that are not UTF-8 cannot be sources.
  std::erase_if(names, [](const std::string& name) {
    return std::any_of(name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; });
  });
  return Json(names);
}

/// The contents of small files that a script may read, such as a version's: no sources.
Json TextsBelow(const fs::path& folder, const Json& names) {
  constexpr std::string_view kSuffixes[] = {".py",  ".txt",  ".md",      ".rst", ".toml",
                                            ".cfg", ".json", ".version", ".in",  ""};
  Json texts = Json::object();
  size_t bytes = 0;
  for (const Json& name : names) {
    const fs::path path = folder / name.get<std::string>();
    const std::string suffix = path.extension().string();
    if (std::find(std::begin(kSuffixes), std::end(kSuffixes), suffix) == std::end(kSuffixes)) {
      continue;
    }
    auto text = os::ReadFile(path, kMaxText);
    if (!text || bytes + text->size() > kMaxTexts) continue;
    bytes += text->size();
    texts[name.get<std::string>()] = std::move(*text);
  }
  return texts;
}

Result<std::vector<std::string>> Items(const Json& extension, const char* key) {
  TRY_ASSIGN(const Json* list, JsonArray(extension, key, "setup.py"));
  std::vector<std::string> items;
  for (const Json& item : *list) {
    if (!item.is_string() || items.size() == kMostItems) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("a damaged list of {}", key));
    }
    items.push_back(record::CleanText(item.get<std::string>()));
    if (items.back().size() > kLongestItem) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("too long {}", key));
    }
  }
  return items;
}

Result<SetupExtension> ReadExtension(const Json& json) {
  SetupExtension extension;
  TRY_ASSIGN(const std::string name, JsonString(json, "name", "setup.py"));
  extension.name = record::CleanText(name);
  TRY_ASSIGN(extension.sources, Items(json, "sources"));
  TRY_ASSIGN(extension.include_dirs, Items(json, "include_dirs"));
  TRY_ASSIGN(extension.flags, Items(json, "flags"));
  return extension;
}

record::Refusal NotOne(const std::vector<SetupExtension>& extensions) {
  std::vector<std::string> names;
  names.reserve(extensions.size());
  for (const SetupExtension& extension : extensions) names.push_back(extension.name);
  return {"unsupported_api",
          names.empty() ? "setup.py describes no extension with a .cu file"
                        : fmt::format("setup.py describes {} extensions with .cu files ({}); give "
                                      "the files of one with --sources",
                                      names.size(), fmt::join(names, ", ")),
          "setup.py", true};
}

}  // namespace

Result<Setup> RunSetup(const fs::path& script, PythonPool& pool, const device::Description& device,
                       const std::stop_token& stop) {
  TRY_ASSIGN(const std::string source, os::ReadFile(script, kMaxScript));
  TRY_ASSIGN(PythonChild child, pool.Fork({}, stop));
  std::error_code error;
  const fs::path folder = fs::absolute(script, error).parent_path();
  const Json names = NamesBelow(folder);
  const Json request{{"op", "setup"},
                     {"file", "setup.py"},
                     {"source", source},
                     {"names", names},
                     {"texts", TextsBelow(folder, names)},
                     {"device", DeviceJson(device)}};
  const auto deadline = std::chrono::steady_clock::now() + kScriptDeadline;
  const Status written = os::WriteFrame(child.channel(), DumpJson(request), deadline, stop);
  // If the process has ended, reading says how.
  if (!written && written.error().code == ErrorCode::kCancelled) {
    return tl::unexpected(written.error());
  }
  TRY_ASSIGN(auto answer, ReadAnswer(child, "setup.py", {deadline, kScriptDeadline}, stop));
  if (auto* refusal = std::get_if<record::Refusal>(&answer)) {
    if (refusal->code == "host_exception") {  // says nothing about the kernel
      *refusal = {"unsupported_api",
                  fmt::format("cupel cannot follow setup.py ({}); give its files with --sources",
                              refusal->message),
                  refusal->where, true};
    }
    return Setup(std::move(*refusal));
  }
  const auto list = JsonArray(std::get<Json>(answer), "extensions", "setup.py");
  if (!list || (*list)->size() > kMostItems) return Setup(Damaged("its answer has no extensions"));
  std::vector<SetupExtension> extensions;
  for (const Json& json : **list) {
    auto extension = ReadExtension(json);
    if (!extension) return Setup(Damaged(extension.error().message));
    extensions.push_back(std::move(*extension));
  }
  if (extensions.size() != 1) return Setup(NotOne(extensions));
  return Setup(std::move(extensions.front()));
}

}  // namespace cupel::trace
