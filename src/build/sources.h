// The files of a candidate that has several: a folder, or files by name, with the headers below the
// folder that they include. They are read once. What is not read cannot be included.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::build {

inline constexpr size_t kMaxSourceFiles = 64;

struct SourceFile {
  std::string name;  // relative, in messages and line tables: "csrc/kernel.cu"
  std::string text;
  bool is_compiled = true;  // false: a header
};

struct Sources {
  std::string name;               // of the candidate in messages
  std::vector<SourceFile> files;  // those that are compiled in the order of linking, then headers
  std::vector<std::string> folders;  // relative; in which #include also looks
  std::filesystem::path root;        // the folder to which names are relative; empty: none
};

/// The suffix of a file that contains all files of a candidate (Bundle).
inline constexpr char kBundleSuffix[] = ".cupel-sources";

/// True for PTX with a launch description (docs/formats/launch.md): the description is the first
/// file, and its name ends in ".json". No file is compiled.
bool IsLaunchDescription(const Sources& sources);

/// The script that describes an extension. cupel runs it only where a user names it or its folder.
inline constexpr char kSetupName[] = "setup.py";

/// True for .cu: the file may have device code. False for C++: .cc, .cpp, .cxx, .c++.
bool IsCudaName(std::string_view name);
bool IsCppName(std::string_view name);

/// True if `kernel` must be opened with OpenSources: a folder, a bundle, one of several files, or a
/// .cu file that includes a header of its own folder.
bool HasSeveralFiles(const std::filesystem::path& kernel,
                     std::span<const std::filesystem::path> more);

/// Reads a candidate: all .cu and C++ files directly in a folder, in the order of their names; a
/// bundle; or `kernel` and `more`. Adds the headers that these files include, if they are in a
/// folder of such a file, in its folder "include", or in one of `folders` that is below their
/// common folder. Errors: kInvalidArgument for no .cu file, more than kMaxSourceFiles files or
/// kMaxSourceBytes bytes, symbolic links that leave the folder, names that are unsafe on a command
/// line; kNotFound.
Result<Sources> OpenSources(const std::filesystem::path& kernel,
                            std::span<const std::filesystem::path> more,
                            std::span<const std::filesystem::path> folders);

/// Reads `names` below `root`, and the headers below `root` that they include. #include looks in
/// `folders` and in `root`, too. `texts` are files that are not on the disk, by name. Errors: as
/// OpenSources.
Result<Sources> OpenBelow(const std::filesystem::path& root, const std::vector<std::string>& names,
                          const std::map<std::string, std::string>& texts,
                          const std::vector<std::string>& folders = {});

/// A file as a record names it.
struct ListedFile {
  std::string name, hash;  // SHA-256
  bool is_compiled = true;
};

/// Reads the files of a record, in its order, also if they have changed. `kernel`: the candidate as
/// the user names it, a folder or the first file. Errors: as OpenSources; they name a file that is
/// missing.
Result<Sources> OpenListed(const std::filesystem::path& kernel, std::span<const ListedFile> files,
                           const std::vector<std::string>& folders);

/// All files as one text. Equal texts mean equal candidates.
std::string Bundle(const Sources& sources);
/// Reads what Bundle wrote. `text` may be hostile. Error: kInvalidArgument.
Result<Sources> Unbundle(std::string_view text);

/// A candidate as one text: the text of its only file, or the Bundle of a folder. Its SHA-256 is
/// the hash of the source. Errors: as OpenSources.
Result<std::string> TextOf(const std::filesystem::path& kernel);

/// True if `text` begins as Bundle's do.
bool IsBundle(std::string_view text);

/// SHA-256 of Bundle.
std::string HashOf(const Sources& sources);

/// The texts of all files, one after the other.
std::string JoinedText(const Sources& sources);

}  // namespace cupel::build
