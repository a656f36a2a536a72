// SPDX-License-Identifier: Apache-2.0
#include "serve/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/hash.h"
#include "os/temp_dir.h"

namespace cupel::serve {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class StoreTest : public ::testing::Test {
 protected:
  /// Hands out `content_` in parts of 1000 bytes.
  CaseStore::FetchPart Parts() {
    return [this](int64_t offset) -> Result<std::string> {
      ++fetched_;
      return content_.substr(static_cast<size_t>(offset), 1000);
    };
  }
  std::string Hash() const { return Sha256Hex(content_); }
  int64_t Size() const { return static_cast<int64_t>(content_.size()); }

  os::TempDir folder_ = *os::TempDir::Create();
  std::string content_ = std::string(2500, 'x') + "end";
  std::atomic<int> fetched_{0};
};

std::string TextOf(const os::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(StoreTest, FetchesAFileOncePerNode) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] {
      CaseStore store(folder_.path());  // one object each, as in separate processes
      const auto file = store.Get(Hash(), Size(), Parts());
      ASSERT_TRUE(file) << file.error().ToString();
      EXPECT_EQ(TextOf(*file), content_);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fetched_, 3);
}

TEST_F(StoreTest, RejectsFileThatDoesNotMatchItsHash) {
  CaseStore store(folder_.path());
  const std::string hash = Hash();
  const int64_t size = Size();
  content_[7] = 'y';
  const auto wrong = store.Get(hash, size, Parts());
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("arrived damaged"));
  content_[7] = 'x';
  EXPECT_TRUE(store.Get(hash, size, Parts()));
}

TEST_F(StoreTest, FetchesADamagedFileAgain) {
  CaseStore store(folder_.path());
  ASSERT_TRUE(store.Get(Hash(), Size(), Parts()));
  std::ofstream(folder_.path() / Hash()) << "torn";
  const auto file = store.Get(Hash(), Size(), Parts());
  ASSERT_TRUE(file);
  EXPECT_EQ(TextOf(*file), content_);
  EXPECT_EQ(fetched_, 6);
}

TEST_F(StoreTest, RejectsEmptyOrTooLongPart) {
  CaseStore store(folder_.path());
  EXPECT_FALSE(store.Get(Hash(), Size(), [](int64_t) { return Result<std::string>(""); }));
  EXPECT_FALSE(
      store.Get(Hash(), Size(), [&](int64_t) -> Result<std::string> { return content_ + "more"; }));
}

TEST_F(StoreTest, RemovesLeastRecentlyUsedFiles) {
  CaseStore store(folder_.path(), {}, 6000);
  std::vector<std::string> hashes;
  for (int i = 0; i < 4; ++i) {
    content_[0] = static_cast<char>('a' + i);
    hashes.push_back(Hash());
    ASSERT_TRUE(store.Get(Hash(), Size(), Parts()));
    fs::last_write_time(folder_.path() / Hash(),
                        fs::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  EXPECT_FALSE(fs::exists(folder_.path() / hashes[0]));
  EXPECT_TRUE(fs::exists(folder_.path() / hashes[3]));
}

}  // namespace
}  // namespace cupel::serve
