// SPDX-License-Identifier: Apache-2.0
#include "trace/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
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

/// The same for all files, in their order.
std::vector<std::string> LibrariesOf(const build::Sources& sources, const std::string& extension) {
  std::vector<std::string> libraries;
  for (const build::SourceFile& file : sources.files) {
    for (std::string& name : LibrariesOf(file.text, extension)) {
      libraries.push_back(std::move(name));
    }
  }
  return libraries;
}

/// A source that `load` names: a file, or a text that the program wrote.
struct Named {
  std::string name;
  std::optional<std::string> text;
};

/// "named": names, and for a text the list that has it and its place there.
Result<std::vector<Named>> NamedSources(const Json& question) {
  std::vector<Named> named;
  if (!question.contains("named")) return named;
  TRY_ASSIGN(const Json* list, JsonArray(question, "named", kSources));
  for (const Json& item : *list) {
    Named& one = named.emplace_back();
    TRY_ASSIGN(one.name, JsonString(item, "name", kSources));
    TRY_ASSIGN(const std::string where, JsonString(item, "list", kSources));
    if (where == "files") continue;
    TRY_ASSIGN(const int64_t index, JsonInt(item, "index", kSources));
    TRY_ASSIGN(const auto texts, Texts(question, where == "cuda" ? "cuda" : "cpp"));
    if (index < 0 || static_cast<size_t>(index) >= texts.size()) {
      return Fail(ErrorCode::kInvalidArgument, "an extension has a source without a text");
    }
    one.text = texts[static_cast<size_t>(index)];
  }
  return named;
}

/// The sources as files that are compiled each by itself. Nothing if they cannot be: if there is no
/// .cu file, if names are unusual, or if the files are not in the program's folder. Then they are
/// one text.
std::optional<build::Sources> AsFiles(const std::vector<Named>& named, const fs::path& folder) {
  if (named.size() < 2) return std::nullopt;
  std::error_code error;
  const fs::path root = fs::weakly_canonical(folder, error);
  std::vector<std::string> names;
  std::map<std::string, std::string> texts;
  for (const Named& one : named) {
    std::string name = fs::path(one.name).filename().string();
    if (one.text) {
      texts[name] = *one.text;
    } else {
      const fs::path path = fs::weakly_canonical(root / fs::path(one.name), error);
      const fs::path relative = path.lexically_relative(root);
      const bool is_inside = !relative.empty() && *relative.begin() != "..";
      if (is_inside && fs::exists(path, error)) name = relative.string();
    }
    names.push_back(std::move(name));
  }
  auto sources = build::OpenBelow(root, names, texts);
  if (!sources) return std::nullopt;
  return std::move(*sources);
}

std::string Lines(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part + "\n";
  return text;
}

/// The module that load_inline adds for its argument `functions`.
std::string ModuleOf(const std::vector<std::string>& exports) {
  if (exports.empty()) return "";
  std::string text = "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n";
  for (const std::string& name : exports) {
    if (IsName(name)) text += fmt::format("  m.def(\"{0}\", &{0});\n", name);
  }
  return text + "}\n";
}

constexpr char kCppHead[] = "#include <torch/extension.h>\n";
constexpr char kCudaHead[] = "#include <torch/extension.h>\n#include <cuda_runtime.h>\n";

/// True if `code` contains `name`, followed by a parenthesis.
bool Declares(const std::string& code, const std::string& name) {
  for (size_t at = code.find(name); at != std::string::npos; at = code.find(name, at + 1)) {
    const size_t end = at + name.size();
    const size_t next = code.find_first_not_of(" \t\n", end);
    const bool is_word = (at == 0 || !build::IsWordChar(code[at - 1])) &&
                         (end == code.size() || !build::IsWordChar(code[end]));
    if (is_word && next != std::string::npos && code[next] == '(') return true;
  }
  return false;
}

/// PyTorch compiles cpp_sources with the module as a C++ file, and cuda_sources as another. One
/// file is the same, and is faster to compile, if cpp_sources are only declarations and have all
/// functions of the module.
bool IsOneUnit(const std::vector<std::string>& cpp, const std::vector<std::string>& exports) {
  const std::string code = build::CodeOnly(Lines(cpp));
  for (size_t at = code.find('#'); at != std::string::npos; at = code.find('#', at + 1)) {
    if (!std::string_view(code).substr(at).starts_with("#include")) return false;
  }
  return code.find_first_of("{=") == std::string::npos && !exports.empty() &&
         std::all_of(exports.begin(), exports.end(),
                     [&](const std::string& name) { return Declares(code, name); });
}

/// The two files.
build::Sources AsUnits(const std::string& name, const std::vector<std::string>& cpp,
                       const std::vector<std::string>& cuda,
                       const std::vector<std::string>& exports) {
  build::Sources sources;
  sources.name = name;
  sources.files.push_back({name + ".cpp", kCppHead + Lines(cpp) + ModuleOf(exports)});
  sources.files.push_back({name + ".cu", kCudaHead + Lines(cuda)});
  return sources;
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
  TRY_ASSIGN(const auto named, NamedSources(question));
  sources.files = AsFiles(named, folder);
  if (sources.files) {
    sources.files->name = sources.name;
    sources.libraries = LibrariesOf(*sources.files, sources.name);
    sources.has_files = !files.empty();
    return Found(std::move(sources));
  }
  std::string& text = sources.text;
  if (named.empty()) {
    if (!IsOneUnit(cpp, exports)) {
      sources.files = AsUnits(sources.name, cpp, cuda, exports);
      sources.libraries = LibrariesOf(*sources.files, sources.name);
      return Found(std::move(sources));
    }
    text = kCudaHead + Lines(cuda) + Lines(cpp) + ModuleOf(exports);
  } else {
    if (files.empty()) text = kCudaHead;
    text += Lines(cuda) + Lines(cpp);
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
