// Needs no GPU, because locks are files.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/gpu_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "os/temp_dir.h"

namespace cupel::gpu {
namespace {

using Use = GpuLock::Use;

constexpr std::chrono::milliseconds kDelay{200};

class GpuLocks : public ::testing::Test {
 protected:
  GpuLocks() : folder_(*os::TempDir::Create()) {}
  GpuLock Open(const char* uuid = "GPU-1") { return *GpuLock::Open(folder_.path(), uuid); }

  /// Acquires the lock in a separate thread and releases it on request.
  class Holder {
   public:
    Holder(GpuLock lock, Use use) {
      thread_ = std::thread([this, use, lock = std::move(lock)]() mutable {
        EXPECT_TRUE(lock.Acquire(use));
        has_ = true;
        while (!release_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    }
    ~Holder() { Release(); }
    bool AcquiresSoon() const {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!has_ && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return has_;
    }
    bool HasAcquiredAfterDelay() const {
      std::this_thread::sleep_for(kDelay);
      return has_;
    }
    void Release() {
      release_ = true;
      if (thread_.joinable()) thread_.join();
    }

   private:
    std::atomic<bool> has_ = false, release_ = false;
    std::thread thread_;
  };

  os::TempDir folder_;
};

TEST_F(GpuLocks, ReportsAWait) {
  Holder timing(Open(), Use::kAlone);
  ASSERT_TRUE(timing.AcquiresSoon());
  std::atomic<int> reports = 0;
  std::atomic<bool> waits = false;
  const auto report = [&](bool still) {
    ++reports;
    waits = still;
  };
  Holder waiting(*GpuLock::Open(folder_.path(), "GPU-1", {}, report, std::chrono::milliseconds(5)),
                 Use::kShared);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (reports < 3 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(reports, 3);
  EXPECT_TRUE(waits);
  timing.Release();
  EXPECT_TRUE(waiting.AcquiresSoon());
  EXPECT_FALSE(waits);
}

TEST_F(GpuLocks, AllowsManySharedUsersOrOneAlone) {
  Holder one(Open(), Use::kShared), two(Open(), Use::kShared);
  EXPECT_TRUE(one.AcquiresSoon());
  EXPECT_TRUE(two.AcquiresSoon());
  Holder other_gpu(Open("GPU-2"), Use::kAlone);
  EXPECT_TRUE(other_gpu.AcquiresSoon());
  Holder alone(Open(), Use::kAlone);
  EXPECT_FALSE(alone.HasAcquiredAfterDelay());
  one.Release();
  two.Release();
  EXPECT_TRUE(alone.AcquiresSoon());
}

TEST_F(GpuLocks, LaterSharedUserWaitsForTheMeasuringOne) {
  Holder early(Open(), Use::kShared);
  ASSERT_TRUE(early.AcquiresSoon());
  Holder measuring(Open(), Use::kAlone);
  EXPECT_FALSE(measuring.HasAcquiredAfterDelay());
  Holder late(Open(), Use::kShared);
  EXPECT_FALSE(late.HasAcquiredAfterDelay());
  early.Release();
  EXPECT_TRUE(measuring.AcquiresSoon());
  EXPECT_FALSE(late.HasAcquiredAfterDelay());
  measuring.Release();
  EXPECT_TRUE(late.AcquiresSoon());
}

TEST_F(GpuLocks, SharedUsersGoOnWhileOneThatMeasuresWaitsForABuild) {
  GpuLock builder = Open();
  ASSERT_TRUE(builder.BeginBuilding());
  Holder measuring(Open(), Use::kAlone);
  EXPECT_FALSE(measuring.HasAcquiredAfterDelay());
  Holder late(Open(), Use::kShared);
  EXPECT_TRUE(late.AcquiresSoon());
  late.Release();
  builder.EndBuilding();
  EXPECT_TRUE(measuring.AcquiresSoon());
}

TEST_F(GpuLocks, ManyBuildAtTheSameTimeAndUseTheGpu) {
  GpuLock one = Open(), two = Open();
  EXPECT_TRUE(one.BeginBuilding());
  EXPECT_TRUE(two.BeginBuilding());
  EXPECT_TRUE(one.Acquire(Use::kShared));
  EXPECT_TRUE(two.Acquire(Use::kShared));
  one.Release();
  two.Release();
  Holder measuring(Open(), Use::kAlone);
  EXPECT_FALSE(measuring.HasAcquiredAfterDelay());  // a release of the GPU ends no build
  one.EndBuilding();
  EXPECT_FALSE(measuring.HasAcquiredAfterDelay());
  two.EndBuilding();
  EXPECT_TRUE(measuring.AcquiresSoon());
}

TEST_F(GpuLocks, BuildsWaitForOneThatWaitsToMeasure) {
  GpuLock builder = Open();
  ASSERT_TRUE(builder.BeginBuilding());
  Holder measuring(Open(), Use::kAlone);
  const os::Fd turn = *os::OpenLockFile(folder_.path() / "GPU-1.lock.building.turn");
  const auto now = [] { return std::chrono::steady_clock::now(); };
  while (os::Acquire(turn, os::Lock::kExclusive, now())) {  // until it waits
    os::Unlock(turn);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::atomic<bool> builds = false;
  std::thread late([&, lock = Open()]() mutable {
    EXPECT_TRUE(lock.BeginBuilding());
    builds = true;
  });
  std::this_thread::sleep_for(kDelay);
  EXPECT_FALSE(builds);
  builder.EndBuilding();
  EXPECT_TRUE(measuring.AcquiresSoon());
  EXPECT_FALSE(builds);
  measuring.Release();
  late.join();
}

TEST_F(GpuLocks, OneThatMeasuresCannotBuild) {
  GpuLock lock = Open();
  ASSERT_TRUE(lock.Acquire(Use::kAlone));
  EXPECT_FALSE(lock.BeginBuilding());
  lock.Release();
  EXPECT_TRUE(lock.BeginBuilding());
}

TEST_F(GpuLocks, SharedUseAfterExclusiveUseLetsBuildsBegin) {
  GpuLock lock = Open(), builder = Open();
  ASSERT_TRUE(lock.Acquire(Use::kAlone));
  ASSERT_TRUE(lock.Acquire(Use::kShared));
  EXPECT_TRUE(builder.BeginBuilding());
}

TEST_F(GpuLocks, SharedHoldWithinExclusiveUseChangesNothing) {
  GpuLock lock = Open();
  ASSERT_TRUE(lock.Acquire(Use::kAlone));
  {
    auto hold = GpuHold::Shared(lock);
    ASSERT_TRUE(hold);
  }
  EXPECT_EQ(lock.use(), Use::kAlone);
  lock.Release();
  Holder other(Open(), Use::kAlone);
  EXPECT_TRUE(other.AcquiresSoon());
}

TEST_F(GpuLocks, EmptyFolderLocksNothing) {
  auto one = GpuLock::Open("", "GPU-1"), two = GpuLock::Open("", "GPU-1");
  EXPECT_TRUE(one->Acquire(Use::kAlone));
  EXPECT_TRUE(two->Acquire(Use::kAlone));
}

}  // namespace
}  // namespace cupel::gpu
