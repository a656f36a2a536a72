// SPDX-License-Identifier: Apache-2.0
#include "os/fd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "os/files.h"
#include "os/folders.h"
#include "os/mapped_file.h"
#include "os/temp_dir.h"

namespace cupel::os {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Fd, ClosesOnceAndMoves) {
  const int raw = open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    Fd a(raw);
    Fd b = std::move(a);
    EXPECT_EQ(b.get(), raw);
    Fd c;
    c = std::move(b);
    EXPECT_EQ(c.get(), raw);
  }
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
}

TEST(TempDir, IsPrivateAndIsRemovedWithItsContent) {
  fs::path path;
  {
    auto dir = TempDir::Create();
    ASSERT_TRUE(dir);
    path = dir->path();
    struct stat info{};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    fs::create_directories(path / "a" / "b");
    std::ofstream(path / "a" / "b" / "c") << "x";
    fs::permissions(path / "a", fs::perms::none);  // as hostile code may leave it
    const TempDir moved = std::move(*dir);
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
  const auto failed = TempDir::Create("/nonexistent");
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().remedy, HasSubstr("TMPDIR"));
}

/// The path of the TempDir `folder` with another random part.
fs::path Renamed(const TempDir& folder, const std::string& random) {
  const std::string path = folder.path().string();
  return path.substr(0, path.size() - random.size()) + random;
}

/// Leaves a TempDir with a file in `parent`, like a process that was killed.
fs::path Abandon(const fs::path& parent) {
  const pid_t pid = fork();
  if (pid == 0) {
    const auto folder = TempDir::Create(parent);
    if (folder) std::ofstream(folder->path() / "file") << "x";
    raise(SIGKILL);
  }
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  return fs::directory_iterator(parent)->path();
}

TEST(TempDir, IsSweptAfterItsProcessWasKilled) {
  const auto parent = TempDir::Create();
  const fs::path abandoned = Abandon(parent->path());
  ASSERT_TRUE(fs::exists(abandoned / "file"));
  auto created = TempDir::Create(parent->path());
  const TempDir used = std::move(*created);
  const fs::path longer = used.path().string() + "1";
  const std::vector<fs::path> others = {parent->path() / "cupel-review",
                                        parent->path() / "cupel-temp-abc123", longer,
                                        Renamed(used, "symbol"), Renamed(used, "file12")};
  for (size_t i = 0; i < 3; ++i) fs::create_directory(others[i]);
  fs::create_directory_symlink(others[0], others[3]);
  std::ofstream(others[4]) << "x";
  SweepTempDirs(parent->path());
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(fs::exists(used.path()));
  for (const fs::path& other : others) EXPECT_TRUE(fs::exists(other)) << other;
}

TEST(TempDir, SweepByRootRemovesFoldersOwnedByNobody) {
  if (getuid() != 0) GTEST_SKIP() << "only root gives folders away";
  const auto parent = TempDir::Create();
  const auto model = TempDir::Create(parent->path());
  const fs::path sandbox = Renamed(*model, "nobody"), other = Renamed(*model, "others");
  for (const fs::path& path : {sandbox, other}) fs::create_directory(path);
  ASSERT_EQ(chown(sandbox.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chown(other.c_str(), 1234, 1234), 0);
  SweepTempDirs(parent->path());
  EXPECT_FALSE(fs::exists(sandbox));
  EXPECT_TRUE(fs::exists(other));
}

TEST(ReadFile, ReadsRegularFilesUpToTheLimit) {
  const auto dir = TempDir::Create();
  const fs::path path = dir->path() / "file";
  ASSERT_TRUE(WriteFileAtomically(path, "hello"));
  EXPECT_EQ(*ReadFile(path, 5), "hello");
  EXPECT_EQ(ReadFile(path, 4).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ReadFile(dir->path() / "absent", 4).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(*ReadFile("/proc/self/status", 1 << 20), HasSubstr("Name:"));  // reports size 0
}

TEST(ReadFile, DoesNotHangOnAFifoOrADevice) {
  const auto dir = TempDir::Create();
  const fs::path fifo = dir->path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(ReadFile(fifo, 100));
  EXPECT_FALSE(ReadFile("/dev/zero", 100));
  EXPECT_FALSE(ReadFile(dir->path(), 100));
  EXPECT_FALSE(MappedFile::Open(fifo));
}

TEST(WriteFile, ReplacesTheFileAndLeavesNoTemporary) {
  const auto dir = TempDir::Create();
  const fs::path path = dir->path() / "file";
  ASSERT_TRUE(WriteFileAtomically(path, "first"));
  ASSERT_TRUE(WriteFileAtomically(path, "second"));
  EXPECT_EQ(*ReadFile(path, 100), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir->path()), fs::directory_iterator()), 1);
  EXPECT_FALSE(WriteFileAtomically(dir->path() / "no" / "file", "x"));
}

TEST(WriteFile, ReportsAFullDisk) {
  const Fd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full) GTEST_SKIP() << "no /dev/full";
  const auto status = WriteAll(full.get(), "x");
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().ToString(), HasSubstr("No space left on device; free space"));
}

TEST(MappedFile, MapsTheFilesBytes) {
  const auto dir = TempDir::Create();
  ASSERT_TRUE(WriteFileAtomically(dir->path() / "file", "hello"));
  auto file = MappedFile::Open(dir->path() / "file");
  ASSERT_TRUE(file);
  const MappedFile moved = std::move(*file);
  ASSERT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(moved.bytes()[4], std::byte{'o'});
  ASSERT_TRUE(WriteFileAtomically(dir->path() / "empty", ""));
  EXPECT_TRUE(MappedFile::Open(dir->path() / "empty")->bytes().empty());
}

TEST(Folders, FollowTheEnvironment) {
  const auto dir = TempDir::Create();
  setenv("CUPEL_CACHE", (dir->path() / "a" / "b").c_str(), 1);
  EXPECT_EQ(*CacheDir(), dir->path() / "a" / "b");
  unsetenv("CUPEL_CACHE");
  setenv("XDG_CACHE_HOME", dir->path().c_str(), 1);
  EXPECT_EQ(*CacheDir(), dir->path() / "cupel");
  setenv("CUPEL_CACHE", "/proc/cupel", 1);
  EXPECT_EQ(CacheDir().error().code, ErrorCode::kEnvironment);
  unsetenv("CUPEL_CACHE");
  unsetenv("XDG_CACHE_HOME");
  setenv("CUPEL_HOME", CUPEL_SOURCE_DIR, 1);
  EXPECT_EQ(*DataDir(), fs::path(CUPEL_SOURCE_DIR));
  setenv("CUPEL_HOME", dir->path().c_str(), 1);
  EXPECT_THAT(DataDir().error().message, HasSubstr("no shim/ folder"));
  unsetenv("CUPEL_HOME");
}

}  // namespace
}  // namespace cupel::os
