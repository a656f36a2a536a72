// SPDX-License-Identifier: Apache-2.0
#include "os/memory.h"

#include <gtest/gtest.h>

#include <fstream>

#include "os/temp_dir.h"

namespace cupel::os {
namespace {

class MemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Write("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:  600 kB\n");
    Write("proc/self/cgroup", "4:memory:/elsewhere\n0::/job/step\n");
  }
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    std::ofstream(folder_.path() / path) << text;
  }
  Memory Now() const { return MemoryNow(folder_.path()); }

  TempDir folder_ = *TempDir::Create();
};

TEST_F(MemoryTest, EqualsMachineMemoryWithoutALimit) {
  EXPECT_EQ(Now().total, 1000u * 1024);
  EXPECT_EQ(Now().available, 600u * 1024);
  Write("sys/fs/cgroup/job/memory.max", "max\n");
  Write("sys/fs/cgroup/job/memory.current", "5\n");
  EXPECT_EQ(Now().total, 1000u * 1024);
}

TEST_F(MemoryTest, UsesTightestLimitOfTheEnclosingGroups) {
  Write("sys/fs/cgroup/job/step/memory.max", "400000\n");
  Write("sys/fs/cgroup/job/step/memory.current", "100000\n");
  Write("sys/fs/cgroup/job/step/memory.stat", "anon 1\nfile 60000\ninactive_file 50000\n");
  EXPECT_EQ(Now().total, 400000u);
  EXPECT_EQ(Now().available, 350000u);
  Write("sys/fs/cgroup/job/memory.max", "300000\n");
  Write("sys/fs/cgroup/job/memory.current", "310000\n");
  EXPECT_EQ(Now().total, 300000u);
  EXPECT_EQ(Now().available, 0u);
  Write("proc/self/cgroup", "0:://job/step\n");
  EXPECT_EQ(Now().total, 300000u);
}

TEST_F(MemoryTest, IsPositiveOnThisMachine) {
  const Memory memory = MemoryNow();
  EXPECT_GT(memory.total, 1u << 20);
  EXPECT_LE(memory.available, memory.total);
}

TEST(ResidentBytes, GrowsWithTouchedMemory) {
  const uint64_t before = ResidentBytes();
  std::vector<char> touched(64 << 20, 1);
  EXPECT_GT(ResidentBytes(), before + (touched.size() / 2));
}

}  // namespace
}  // namespace cupel::os
