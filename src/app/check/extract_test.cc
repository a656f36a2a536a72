// SPDX-License-Identifier: Apache-2.0
#include "app/check/extract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "app/new_folder.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using trace::ProgramCode;

ProgramCode Extension(const std::string& name, const std::vector<std::string>& files) {
  ProgramCode code{ProgramCode::Kind::kExtension, name, {}, {}};
  for (const std::string& file : files) code.files.push_back({file, "text of " + file});
  return code;
}

ProgramCode Kernel(const std::string& name) {
  return {ProgramCode::Kind::kTriton, name, {{name + ".ptx", "text of " + name}}, {}};
}

std::vector<std::string> PathsOf(const std::vector<ProgramCode>& code) {
  std::vector<std::string> paths;
  for (const ExtractedFile& file : FilesOf(code)) paths.push_back(file.path);
  return paths;
}

TEST(Extract, NamesFilesAfterExtensionsAndKernels) {
  EXPECT_THAT(PathsOf({Extension("op", {"op.cu"}), Kernel("add"),
                       Extension("many", {"csrc/a.cu", "bind.cpp", "csrc/a.h"})}),
              ElementsAre("op.cu", "add.ptx", "many/csrc/a.cu", "many/bind.cpp", "many/csrc/a.h"));
}

TEST(Extract, NumbersEqualNames) {
  EXPECT_THAT(
      PathsOf({Kernel("add"), Kernel("add"), Extension("op", {"op.cu"}),
               Extension("op", {"a.cu", "b.cu"}), Extension("op", {"a.cu", "b.cu"})}),
      ElementsAre("add.ptx", "add-2.ptx", "op.cu", "op/a.cu", "op/b.cu", "op-2/a.cu", "op-2/b.cu"));
  // A folder cannot have the name of a file.
  EXPECT_THAT(PathsOf({Extension("op", {"k.cu/x.cu", "k.cu"})}),
              ElementsAre("op/k.cu/x.cu", "op/k-2.cu"));
}

TEST(Extract, NoPathLeavesTheFolder) {
  const std::vector<ProgramCode> hostile = {
      Kernel("../../etc/passwd"),
      Kernel("/etc/passwd"),
      Kernel(".."),
      Kernel(""),
      Kernel("-o"),
      Kernel(".bashrc"),
      Kernel(std::string("a\0b\n\x1b[31m", 9)),
      Kernel(std::string(5000, 'k')),
      Kernel(std::string(5000, 'k') + "2"),
      Extension("..", {"../a.cu", "../../b.cu", "/c.cu", "d/../../e.cu"}),
      Extension("../..", {".cu", "", "..", "-x", std::string(3000, 'f') + ".cu"}),
  };
  std::set<std::string> paths;
  auto folder = os::TempDir::Create();
  ASSERT_TRUE(folder);
  std::vector<NewFile> written;
  for (const ExtractedFile& file : FilesOf(hostile)) {
    EXPECT_TRUE(paths.insert(file.path).second) << file.path;
    for (const fs::path& part : fs::path(file.path)) {
      EXPECT_THAT(part.string(), testing::MatchesRegex("[A-Za-z0-9_][A-Za-z0-9_.-]*"));
      EXPECT_LE(part.string().size(), 220u);
    }
    written.push_back({file.path, file.text});
  }
  EXPECT_EQ(paths.size(), 18u);
  const fs::path into = folder->path() / "new" / "out";
  ASSERT_TRUE(WriteNewFolder(into, written));
  size_t found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder->path())) {
    if (entry.is_regular_file()) ++found;
  }
  EXPECT_EQ(found, written.size()) << "and no temporary file remains";
  for (const NewFile& file : written) {
    EXPECT_EQ(os::ReadFile(into / file.path, 1u << 20).value_or("?"), file.text) << file.path;
  }
}

TEST(NewFolder, MustBeNew) {
  auto folder = os::TempDir::Create();
  ASSERT_TRUE(folder);
  EXPECT_TRUE(CheckNewFolder(folder->path() / "missing"));
  EXPECT_TRUE(CheckNewFolder(folder->path())) << "an empty folder";
  const fs::path file = folder->path() / "file", link = folder->path() / "link";
  ASSERT_TRUE(os::WriteFileAtomically(file, "x"));
  EXPECT_FALSE(CheckNewFolder(file));
  EXPECT_FALSE(CheckNewFolder(folder->path())) << "it has a file";
  fs::create_directory(folder->path() / "empty");
  fs::create_directory_symlink(folder->path() / "empty", link);
  EXPECT_FALSE(CheckNewFolder(link));
  EXPECT_FALSE(WriteNewFolder(folder->path(), {{"a", "b"}}));
}

}  // namespace
}  // namespace cupel::app
