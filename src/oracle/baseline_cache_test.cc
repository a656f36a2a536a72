// SPDX-License-Identifier: Apache-2.0
#include "oracle/baseline_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;

class BaselineCacheTest : public ::testing::Test {
 protected:
  BaselineCacheTest() : folder_(*os::TempDir::Create()), cache_(folder_.path() / "cache") {}
  static BaselineKey Key(const std::string& gpu = "H200") {
    return {"hash",         task::Direction::kForward, {{"n", 3}},
            Json::object(), BaselineKind::kCompile,    gpu,
            "2.11"};
  }
  static BaselineMedians Medians(double cold_us, int64_t taken_at = 0) {
    BaselineMedians medians;
    medians.cold_us = cold_us;
    medians.samples = 50;
    medians.how = "graph";
    medians.taken_at = taken_at;
    return medians;
  }
  os::TempDir folder_;
  BaselineCache cache_;
};

TEST_F(BaselineCacheTest, KeyIncludesEverythingThatAffectsTime) {
  EXPECT_FALSE(cache_.Load(Key()));
  BaselineMedians medians = Medians(12.5);
  medians.host_us = 30;
  medians.tf32 = true;
  ASSERT_TRUE(cache_.Store(Key(), medians));
  const auto found = BaselineCache(folder_.path() / "cache").Load(Key());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cold_us, 12.5);
  EXPECT_EQ(found->host_us, 30);
  EXPECT_FALSE(found->warm_us);
  EXPECT_EQ(found->samples, 50);
  EXPECT_EQ(found->how, "graph");
  EXPECT_TRUE(found->tf32);
  EXPECT_GT(found->taken_at, 1'600'000'000);

  std::vector<BaselineKey> others(7, Key());
  others[0].task_hash = "other";
  others[1].direction = task::Direction::kBackward;
  others[2].init = {{"n", 4}};
  others[3].inputs = {{"n", 3}};
  others[4].kind = BaselineKind::kEager;
  others[5].gpu = "A100";
  others[6].torch_version = "2.10";
  for (size_t i = 0; i < others.size(); ++i) EXPECT_FALSE(cache_.Load(others[i])) << i;

  ASSERT_TRUE(cache_.Store(Key(), Medians(13)));
  EXPECT_EQ(cache_.Load(Key())->cold_us, 13);
}

TEST_F(BaselineCacheTest, RejectsEntriesWithoutTime) {
  for (const double us : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_FALSE(cache_.Store(Key(), Medians(us))) << us;
  }
  EXPECT_FALSE(cache_.Load(Key()));
  EXPECT_TRUE(BaselineCache("").Store(Key(), Medians(1)));  // caching disabled
  EXPECT_FALSE(BaselineCache("").Load(Key()));
}

TEST_F(BaselineCacheTest, TreatsInvalidFileAsEmpty) {
  fs::create_directories(folder_.path() / "cache");
  for (const char* text : {"", "{", "[]", R"({"version": 1, "baselines": []})",
                           R"({"version": 0, "baselines": {}})"}) {
    std::ofstream(folder_.path() / "cache/baselines.json") << text;
    EXPECT_FALSE(cache_.Load(Key())) << text;
    EXPECT_TRUE(cache_.Store(Key(), Medians(2))) << text;
    EXPECT_TRUE(cache_.Load(Key())) << text;
  }
}

TEST_F(BaselineCacheTest, DropsOldestEntries) {
  Json entries = Json::object();
  for (size_t i = 0; i < kMaxCachedBaselines; ++i) {
    // The newest come first, so that the file's order is not the order of age.
    entries["k" + std::to_string(i)] = {{"cold_us", 1.0},
                                        {"samples", 1},
                                        {"how", "graph"},
                                        {"tf32", false},
                                        {"taken_at", kMaxCachedBaselines - i}};
  }
  const fs::path file = folder_.path() / "cache/baselines.json";
  fs::create_directories(file.parent_path());
  std::ofstream(file) << DumpJson({{"version", 1}, {"baselines", entries}});
  ASSERT_TRUE(cache_.Store(Key(), Medians(1)));
  const auto json = ParseJson(*os::ReadFile(file, 8u << 20), "");
  const Json& kept = (*json)["baselines"];
  EXPECT_EQ(kept.size(), kMaxCachedBaselines / 4 * 3 + 1);
  EXPECT_TRUE(kept.contains("k0"));
  EXPECT_FALSE(kept.contains("k" + std::to_string(kMaxCachedBaselines - 1)));
  EXPECT_TRUE(cache_.Load(Key()));
}

TEST_F(BaselineCacheTest, ConcurrentWritersLoseNothing) {
  const auto write = [this](const std::string& prefix) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(cache_.Store(Key(prefix + std::to_string(i)), Medians(i + 1)));
    }
  };
  std::thread one(write, "a"), two(write, "b");
  one.join();
  two.join();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(cache_.Load(Key("a" + std::to_string(i))));
    EXPECT_TRUE(cache_.Load(Key("b" + std::to_string(i))));
  }
}

}  // namespace
}  // namespace cupel::oracle
