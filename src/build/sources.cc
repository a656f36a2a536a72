// The format of a bundle: the line "cupel.sources/1", a line "folder NAME" for each folder, and for
// each file a line "source BYTES NAME" or "header BYTES NAME", its bytes, and a line feed.
// SPDX-License-Identifier: Apache-2.0
#include "build/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "build/build.h"
#include "build/is_one_of.h"
#include "os/files.h"
#include "os/path.h"

namespace cupel::build {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kBundleHead = "cupel.sources/1";
constexpr std::array<std::string_view, 4> kCppExtensions = {".cc", ".cpp", ".cxx", ".c++"};
constexpr size_t kMaxName = 200;
constexpr size_t kMaxFolders = 64;
constexpr const char* kLimitsRemedy =
    "a candidate may have at most 64 files of 4 MiB together; give the files that it needs with "
    "--sources";

std::string ExtensionOf(std::string_view name) { return fs::path(name).extension().string(); }

/// Names go onto command lines and into messages. The build needs some names for itself.
bool IsSafeName(std::string_view name) {
  if (name.empty() || name.size() > kMaxName || name.front() == '/' || name.front() == '-') {
    return false;
  }
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-+./").find(c) != std::string_view::npos;
  });
  if (!is_plain) return false;
  const fs::path path(name);
  if (path.lexically_normal().string() != name || !path.has_filename()) return false;
  const std::string first = path.begin()->string();
  return first != ".." && first != "." && !first.starts_with("cupel_");
}

Status CheckName(const std::string& name) {
  if (IsSafeName(name)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("the file name {} cannot be used in a candidate of several files",
                          name.substr(0, kMaxName)),
              "use letters, digits and _ - + . in the names of files and folders");
}

tl::unexpected<Error> TooMuch(const std::string& name) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} has more than {} files or more than 4 MiB", name, kMaxSourceFiles),
              kLimitsRemedy);
}

/// Checks what all ways to make Sources have in common.
Result<Sources> Checked(Sources sources) {
  std::set<std::string> names;
  bool has_cuda = false;
  for (const SourceFile& file : sources.files) {
    TRY(CheckName(file.name));
    if (file.is_compiled && !IsCudaName(file.name) && !IsCppName(file.name)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is not a source file that cupel compiles", file.name),
                  "give files with the extension .cu, .cc, .cpp, .cxx or .c++");
    }
    if (!names.insert(file.name).second) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("the file {} is named twice", file.name),
                  "name each file once");
    }
    has_cuda |= file.is_compiled && IsCudaName(file.name);
  }
  if (IsLaunchDescription(sources)) has_cuda = true;  // PTX, which needs no compiler
  for (const std::string& folder : sources.folders) {
    if (folder != ".") TRY(CheckName(folder));
  }
  if (!has_cuda) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} has no .cu file", sources.name),
                "a candidate needs a .cu file with a kernel");
  }
  if (sources.files.size() > kMaxSourceFiles || sources.folders.size() > kMaxFolders ||
      Bundle(sources).size() > kMaxSourceBytes) {
    return TooMuch(sources.name);
  }
  return sources;
}

/// The file names of #include lines. Lines in comments and in branches that are not compiled count
/// too: such a file is only read in vain.
std::vector<std::pair<std::string, bool>> IncludesOf(std::string_view text) {
  std::vector<std::pair<std::string, bool>> includes;  // name, is in quotes
  for (std::string_view line : SplitLines(text)) {
    line = Trim(line);
    if (!line.starts_with('#')) continue;
    line = Trim(line.substr(1));
    if (!line.starts_with("include")) continue;
    line = Trim(line.substr(7));
    if (line.empty() || (line[0] != '"' && line[0] != '<')) continue;
    const size_t end = line.find(line[0] == '"' ? '"' : '>', 1);
    if (end == std::string_view::npos || end == 1) continue;
    includes.emplace_back(line.substr(1, end - 1), line[0] == '"');
  }
  return includes;
}

bool IsBelow(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

fs::path Normal(const fs::path& path) {
  std::error_code error;
  const fs::path normal = fs::absolute(path, error).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

/// Reads the files of a candidate from the disk.
class Reader {
 public:
  /// `by_name`: the user names the compiled files, so they may be links to any file.
  Reader(std::string name, const fs::path& root, bool by_name) : root_(root), by_name_(by_name) {
    sources_.name = std::move(name);
    sources_.root = root;
  }

  /// `may_be_missing`: for headers, which the compiler may find elsewhere. False if it is.
  Result<bool> Add(const std::string& name, bool is_compiled, bool may_be_missing) {
    const fs::path path = root_ / name;
    if (may_be_missing && !os::IsFile(path)) return false;
    TRY(CheckName(name));
    std::error_code error;
    const fs::path real = fs::canonical(path, error), real_root = fs::canonical(root_, error);
    const bool is_free = by_name_ && is_compiled;
    if (!is_free && !error && !IsBelow(real, real_root)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is a symbolic link to a file outside of the candidate's folder",
                              path.string()),
                  "copy the file into the folder");
    }
    if (sources_.files.size() >= kMaxSourceFiles || bytes_ >= kMaxSourceBytes) {
      return TooMuch(sources_.name);
    }
    TRY_ASSIGN(std::string text, os::ReadFile(path, kMaxSourceBytes - bytes_));
    bytes_ += text.size();
    sources_.files.push_back({name, std::move(text), is_compiled});
    return true;
  }

  /// A source that is not on the disk.
  Status AddText(const std::string& name, std::string text) {
    if (sources_.files.size() >= kMaxSourceFiles || text.size() > kMaxSourceBytes - bytes_) {
      return TooMuch(sources_.name);
    }
    bytes_ += text.size();
    sources_.files.push_back({name, std::move(text), true});
    return {};
  }

  void AddFolder(const std::string& name) {
    if (!IsOneOf(sources_.folders, name)) sources_.folders.push_back(name);
  }

  /// Adds what the files include, and what that includes. `allowed`: folders of headers.
  Status AddHeaders(const std::set<std::string>& allowed) {
    std::set<std::string> known;
    for (const SourceFile& file : sources_.files) known.insert(file.name);
    const size_t compiled = sources_.files.size();
    for (size_t i = 0; i < sources_.files.size(); ++i) {
      const fs::path folder = fs::path(sources_.files[i].name).parent_path();
      for (const auto& [include, quoted] : IncludesOf(sources_.files[i].text)) {
        std::vector<fs::path> places;
        if (quoted) places.push_back(folder / include);
        for (const std::string& other : sources_.folders)
          places.push_back(fs::path(other) / include);
        for (const fs::path& place : places) {
          const std::string name = place.lexically_normal().string();
          if (fs::path(include).is_absolute() || !IsAllowed(name, allowed)) continue;
          if (known.contains(name)) break;
          TRY_ASSIGN(const bool found, Add(name, false, true));
          if (!found) continue;
          known.insert(name);
          break;
        }
      }
    }
    std::sort(sources_.files.begin() + static_cast<ptrdiff_t>(compiled), sources_.files.end(),
              [](const SourceFile& a, const SourceFile& b) { return a.name < b.name; });
    return {};
  }

  Result<Sources> Take() { return Checked(std::move(sources_)); }

 private:
  static bool IsAllowed(const std::string& name, const std::set<std::string>& allowed) {
    return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& folder) {
      return folder == "." ? *fs::path(name).begin() != ".." : IsBelow(name, folder);
    });
  }

  fs::path root_;
  bool by_name_;
  Sources sources_;
  size_t bytes_ = 0;
};

bool IsDescriptionName(const fs::path& name) { return name.extension() == ".json"; }

/// A launch description, and the PTX files that it names.
Result<Sources> OpenDescription(const fs::path& kernel) {
  const std::string what = kernel.filename().string();
  Reader reader(what, Normal(kernel).parent_path(), true);
  TRY(reader.Add(what, false, false));
  TRY_ASSIGN(const std::string text, os::ReadFile(kernel, kMaxSourceBytes));
  TRY_ASSIGN(const Json json, ParseJson(text, what));
  std::vector<std::string> names;
  if (json.is_object() && json.contains("ptx") && json["ptx"].is_array()) {
    TRY_ASSIGN(names, JsonStringList(json, "ptx", what));
  } else {
    TRY_ASSIGN(names.emplace_back(), JsonString(json, "ptx", what));
  }
  for (const std::string& name : names) TRY(reader.Add(name, false, false));
  return reader.Take();
}

/// The headers that a .cu file includes by paths from its own folder: "h.h", "../h.h".
std::vector<fs::path> OwnHeadersOf(const fs::path& kernel) {
  std::vector<fs::path> found;
  if (!IsCudaName(kernel.filename().string())) return found;
  const auto text = os::ReadFile(kernel, kMaxSourceBytes);
  if (!text) return found;
  for (const auto& [include, quoted] : IncludesOf(*text)) {
    const fs::path name = fs::path(include).lexically_normal();
    if (quoted && name.is_relative() && os::IsFile(kernel.parent_path() / name)) {
      found.push_back(name);
    }
  }
  return found;
}

/// Files may include headers above their folder if the user has named a folder that contains both.
fs::path RootWithHeaders(fs::path root, const std::vector<fs::path>& sources,
                         std::span<const fs::path> folders) {
  if (folders.empty()) return root;
  const bool looks_above = std::ranges::any_of(sources, [](const fs::path& source) {
    return std::ranges::any_of(OwnHeadersOf(source),
                               [](const fs::path& name) { return *name.begin() == ".."; });
  });
  if (!looks_above) return root;
  for (const fs::path& folder : folders) {
    if (IsBelow(root, Normal(folder))) root = Normal(folder);
  }
  return root;
}

/// The deepest folder that contains all of `paths`, which are absolute and normal.
fs::path CommonFolder(const std::vector<fs::path>& paths) {
  fs::path common = paths.front().parent_path();
  for (const fs::path& path : paths) {
    while (!IsBelow(path, common)) common = common.parent_path();
  }
  return common;
}

/// The folder to which the names of a record's files are relative. `kernel`: the candidate as the
/// user names it: a folder, or the file with the name `first`.
fs::path RootOf(const fs::path& kernel, const std::string& first) {
  fs::path root = Normal(kernel);
  if (os::IsFolder(kernel)) return root;
  for ([[maybe_unused]] const fs::path& part : fs::path(first)) root = root.parent_path();
  return root;
}

/// The name of a folder or file below `root`.
std::string NameBelow(const fs::path& path, const fs::path& root) {
  return path.lexically_relative(root).string();
}

Result<std::vector<fs::path>> SourcesIn(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!IsCudaName(name) && !IsCppName(name)) continue;
    found.push_back(entry->path());
    if (found.size() > kMaxSourceFiles) return TooMuch(folder.string());
  }
  if (error) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("cannot read the folder {}: {}", folder.string(), error.message()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool IsCudaName(std::string_view name) { return ExtensionOf(name) == ".cu"; }

bool IsCppName(std::string_view name) { return IsOneOf(kCppExtensions, ExtensionOf(name)); }

bool HasSeveralFiles(const fs::path& kernel, std::span<const fs::path> more) {
  return !more.empty() || kernel.extension() == kBundleSuffix || IsDescriptionName(kernel) ||
         os::IsFolder(kernel) || !OwnHeadersOf(kernel).empty();
}

bool IsLaunchDescription(const Sources& sources) {
  return !sources.files.empty() && IsDescriptionName(sources.files.front().name) &&
         std::none_of(sources.files.begin(), sources.files.end(),
                      [](const SourceFile& file) { return file.is_compiled; });
}

Result<Sources> OpenSources(const fs::path& kernel, std::span<const fs::path> more,
                            std::span<const fs::path> folders) {
  if (kernel.extension() == kBundleSuffix) {
    TRY_ASSIGN(const std::string text, os::ReadFile(kernel, kMaxSourceBytes));
    return Unbundle(text);
  }
  if (IsDescriptionName(kernel) && more.empty()) return OpenDescription(kernel);
  const bool is_folder = os::IsFolder(kernel);
  if (is_folder && !more.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is a folder, so --sources cannot be used", kernel.string()),
                "give the folder, or a .cu file and the other files with --sources");
  }
  std::vector<fs::path> paths;
  if (is_folder) {
    TRY_ASSIGN(paths, SourcesIn(Normal(kernel)));
    if (paths.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("the folder {} has no .cu or C++ file", kernel.string()),
                  "give a folder with the kernel's .cu and .cpp files directly in it");
    }
  } else {
    paths.push_back(Normal(kernel));
    for (const fs::path& path : more) paths.push_back(Normal(path));
    if (paths.size() > kMaxSourceFiles) return TooMuch(kernel.string());
  }
  const fs::path root =
      is_folder ? Normal(kernel) : RootWithHeaders(CommonFolder(paths), paths, folders);
  Reader reader(Normal(kernel).filename().string(), root, !is_folder);
  std::set<std::string> allowed;
  for (const fs::path& path : paths) {
    TRY(reader.Add(NameBelow(path, root), true, false));
    allowed.insert(NameBelow(path.parent_path(), root));
    reader.AddFolder(NameBelow(path.parent_path(), root));
  }
  if (os::IsFolder(root / "include") && allowed.contains(".")) reader.AddFolder("include");
  for (const fs::path& folder : folders) {
    const fs::path normal = Normal(folder);
    if (normal != root && !IsBelow(normal, root)) continue;
    allowed.insert(NameBelow(normal, root));
    reader.AddFolder(NameBelow(normal, root));
  }
  TRY(reader.AddHeaders(allowed));
  return reader.Take();
}

Result<Sources> OpenBelow(const fs::path& root, const std::vector<std::string>& names,
                          const std::map<std::string, std::string>& texts,
                          const std::vector<std::string>& folders) {
  Reader reader(root.filename().string(), root, false);
  for (const std::string& folder : folders) reader.AddFolder(folder);
  reader.AddFolder(".");
  for (const std::string& name : names) {
    if (const auto text = texts.find(name); text != texts.end()) {
      TRY(reader.AddText(name, text->second));
    } else {
      TRY(reader.Add(name, true, false));
    }
  }
  TRY(reader.AddHeaders({"."}));
  return reader.Take();
}

Result<Sources> OpenListed(const fs::path& kernel, std::span<const ListedFile> files,
                           const std::vector<std::string>& folders) {
  if (files.empty()) return Fail(ErrorCode::kInvalidArgument, "the record lists no files");
  const fs::path root = RootOf(kernel, files.front().name);
  Reader reader(Normal(kernel).filename().string(), root, !os::IsFolder(kernel));
  for (const std::string& folder : folders) reader.AddFolder(folder);
  for (const ListedFile& file : files) {
    TRY(CheckName(file.name));
    if (!os::IsFile(root / file.name)) {
      return Fail(ErrorCode::kNotFound, fmt::format("{} is missing", (root / file.name).string()),
                  "restore the candidate's files, or give their place with --kernel");
    }
    TRY(reader.Add(file.name, file.is_compiled, false));
  }
  return reader.Take();
}

std::string Bundle(const Sources& sources) {
  std::string text = fmt::format("{}\n", kBundleHead);
  for (const std::string& folder : sources.folders) text += fmt::format("folder {}\n", folder);
  for (const SourceFile& file : sources.files) {
    text += fmt::format("{} {} {}\n{}\n", file.is_compiled ? "source" : "header", file.text.size(),
                        file.name, file.text);
  }
  return text;
}

Result<Sources> Unbundle(std::string_view text) {
  const auto damaged = [] {
    return Fail(ErrorCode::kInvalidArgument, "the bundle of source files is damaged");
  };
  const auto line = [&]() -> std::optional<std::string_view> {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view found = text.substr(0, end);
    text.remove_prefix(end + 1);
    return found;
  };
  if (line() != kBundleHead) return damaged();
  Sources sources;
  sources.name = "the bundle";
  while (!text.empty()) {
    const auto head = line();
    if (!head) return damaged();
    if (head->starts_with("folder ")) {
      if (sources.folders.size() >= kMaxFolders) return damaged();
      sources.folders.emplace_back(head->substr(7));
      continue;
    }
    SourceFile file;
    file.is_compiled = head->starts_with("source ");
    if (!file.is_compiled && !head->starts_with("header ")) return damaged();
    std::string_view rest = head->substr(7);
    const auto bytes = TakeNumber<size_t>(rest);
    if (!bytes || !rest.starts_with(' ') || *bytes >= text.size() || text[*bytes] != '\n' ||
        sources.files.size() >= kMaxSourceFiles) {
      return damaged();
    }
    file.name = rest.substr(1);
    file.text = text.substr(0, *bytes);
    text.remove_prefix(*bytes + 1);
    sources.files.push_back(std::move(file));
  }
  return Checked(std::move(sources));
}

bool IsBundle(std::string_view text) { return text.starts_with(fmt::format("{}\n", kBundleHead)); }

Result<std::string> TextOf(const fs::path& kernel) {
  if (os::IsFile(kernel / kSetupName)) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{} has a setup.py, which a suite does not run", kernel.string()),
                "give a folder that has only the kernel's files");
  }
  if (!HasSeveralFiles(kernel, {})) return os::ReadFile(kernel, kMaxSourceBytes);
  TRY_ASSIGN(const Sources sources, OpenSources(kernel, {}, {}));
  return Bundle(sources);
}

std::string HashOf(const Sources& sources) { return Sha256Hex(Bundle(sources)); }

std::string JoinedText(const Sources& sources) {
  std::string text;
  for (const SourceFile& file : sources.files) text += file.text + "\n";
  return text;
}

}  // namespace cupel::build
