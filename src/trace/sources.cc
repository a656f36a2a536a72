// SPDX-License-Identifier: Apache-2.0
#include "trace/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/json.h"
#include "build/build.h"
#include "build/source_scan.h"
#include "os/files.h"

namespace cupel::trace {
namespace {

namespace fs = std::filesystem;
using record::Refusal;
using Found = std::variant<Sources, Refusal>;

constexpr std::string_view kSources = "an extension";

bool IsName(std::string_view text) {
  return !text.empty() && text.size() < 200 &&
         std::all_of(
             text.begin(), text.end(),
             [](char c) {
               return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                      (c >= 'A' && c <= 'Z');
             });
}

Result<std::vector<std::string>> Texts(const Json& question, const char* key) {
  TRY_ASSIGN(const Json* list, JsonArray(question, key, kSources));
  std::vector<std::string> texts;
  for (const Json& text : *list) {
    if (!text.is_string()) return Fail(ErrorCode::kInvalidArgument, "a source is not a text");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

/// The file that a program names, if it is in the program's folder: else the refusal.
std::variant<std::string, Refusal> FileText(const std::string& name, const fs::path& folder) {
  std::error_code error;
  const fs::path root = fs::weakly_canonical(folder, error);
  const fs::path path = fs::weakly_canonical(root / fs::path(name).relative_path(), error);
  const auto relative = path.lexically_relative(root);
  const fs::path beside = root / fs::path(name).filename();
  const bool is_inside = !relative.empty() && *relative.begin() != "..";
  const fs::path chosen = is_inside && fs::exists(path, error) ? path : beside;
  const auto text = os::ReadFile(chosen, build::kMaxSourceBytes);
  if (text) return *text;
  return Refusal{"unsupported_api",
                 fmt::format("the source {} of an extension is not next to the program", name), "",
                 true};
}

/// The first words in parentheses behind TORCH_LIBRARY and TORCH_LIBRARY_FRAGMENT.
std::vector<std::string> LibrariesOf(std::string_view text, const std::string& extension) {
  constexpr std::string_view kLibrary = "TORCH_LIBRARY", kFragment = "_FRAGMENT";
  const std::string code = build::CodeOnly(text);
  std::vector<std::string> libraries;
  for (size_t at = code.find(kLibrary); at != std::string::npos; at = code.find(kLibrary, at)) {
    at += kLibrary.size();
    if (std::string_view(code).substr(at).starts_with(kFragment)) at += kFragment.size();
    const auto skip = [&] {
      while (at < code.size() && std::isspace(static_cast<unsigned char>(code[at])) != 0) ++at;
    };
    skip();
    if (at >= code.size() || code[at] != '(') continue;  // TORCH_LIBRARY_IMPL names no operators
    ++at;
    skip();
    const size_t begin = at;
    while (at < code.size() && build::IsWordChar(code[at])) ++at;
    std::string name = code.substr(begin, at - begin);
    if (name == "TORCH_EXTENSION_NAME") name = extension;
    if (IsName(name)) libraries.push_back(std::move(name));
  }
  return libraries;
}

}  // namespace

Result<Found> SourcesOf(const Json& question, const fs::path& folder) {
  Sources sources;
  TRY_ASSIGN(sources.name, JsonString(question, "name", kSources));
  if (!IsName(sources.name)) sources.name = "extension";
  TRY_ASSIGN(sources.flags, Texts(question, "flags"));
  TRY_ASSIGN(const auto cpp, Texts(question, "cpp"));
  TRY_ASSIGN(const auto cuda, Texts(question, "cuda"));
  TRY_ASSIGN(const auto files, Texts(question, "files"));
  TRY_ASSIGN(const auto exports, Texts(question, "exports"));
  std::string& text = sources.text;
  if (files.empty()) text = "#include <torch/extension.h>\n#include <cuda_runtime.h>\n";
  for (const std::string& part : cuda) text += part + "\n";
  for (const std::string& part : cpp) {
    // The file defines what such a text declares.
    if (build::CodeOnly(part).find('{') != std::string::npos) text += part + "\n";
  }
  // Definitions of kernels come before the C++ files that declare and call them.
  auto ordered = files;
  std::stable_partition(ordered.begin(), ordered.end(), [](const std::string& name) {
    return fs::path(name).extension() == ".cu";
  });
  for (const std::string& name : ordered) {
    auto file = FileText(name, folder);
    if (auto* refusal = std::get_if<Refusal>(&file)) return Found(std::move(*refusal));
    text += std::get<std::string>(file) + "\n";
    sources.has_files = true;
  }
  if (!exports.empty() && text.find("PYBIND11_MODULE") == std::string::npos) {
    text += "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n";
    for (const std::string& name : exports) {
      if (IsName(name)) text += fmt::format("  m.def(\"{0}\", &{0});\n", name);
    }
    text += "}\n";
  }
  sources.libraries = LibrariesOf(text, sources.name);
  if (text.size() > build::kMaxSourceBytes) {
    return Found(Refusal{"unsupported_api",
                         fmt::format("the sources of extension {} are too large", sources.name), "",
                         true});
  }
  return Found(std::move(sources));
}

}  // namespace cupel::trace
