// Needs no GPU: locks are files.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/gpu_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "os/fd.h"

namespace cupel::gpu {
namespace {

using Use = GpuLock::Use;

constexpr std::chrono::milliseconds kAWhile{200};

class GpuLocks : public ::testing::Test {
 protected:
  GpuLocks() : folder_(*os::TempDir::Create()) {}
  GpuLock Open(const char* uuid = "GPU-1") { return *GpuLock::Open(folder_.path(), uuid); }

  /// Takes the lock in a thread of its own, and lets it go when it is asked to.
  class Holder {
   public:
    Holder(GpuLock lock, Use use) {
      thread_ = std::thread([this, use, lock = std::move(lock)]() mutable {
        EXPECT_TRUE(lock.Acquire(use));
        has_ = true;
        while (!let_go_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    }
    ~Holder() { LetGo(); }
    bool HasItSoon() const {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!has_ && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return has_;
    }
    bool HasItAfterAWhile() const {
      std::this_thread::sleep_for(kAWhile);
      return has_;
    }
    void LetGo() {
      let_go_ = true;
      if (thread_.joinable()) thread_.join();
    }

   private:
    std::atomic<bool> has_ = false, let_go_ = false;
    std::thread thread_;
  };

  os::TempDir folder_;
};

TEST_F(GpuLocks, ManyShareOrOneIsAlone) {
  Holder one(Open(), Use::kShared), two(Open(), Use::kShared);
  EXPECT_TRUE(one.HasItSoon());
  EXPECT_TRUE(two.HasItSoon());
  Holder elsewhere(Open("GPU-2"), Use::kAlone);
  EXPECT_TRUE(elsewhere.HasItSoon());
  Holder alone(Open(), Use::kAlone);
  EXPECT_FALSE(alone.HasItAfterAWhile());
  one.LetGo();
  two.LetGo();
  EXPECT_TRUE(alone.HasItSoon());
}

TEST_F(GpuLocks, WhoSharesCannotKeepOutWhoMeasures) {
  Holder early(Open(), Use::kShared);
  ASSERT_TRUE(early.HasItSoon());
  Holder measuring(Open(), Use::kAlone);
  EXPECT_FALSE(measuring.HasItAfterAWhile());
  Holder late(Open(), Use::kShared);
  EXPECT_FALSE(late.HasItAfterAWhile());
  early.LetGo();
  EXPECT_TRUE(measuring.HasItSoon());
  EXPECT_FALSE(late.HasItAfterAWhile());
  measuring.LetGo();
  EXPECT_TRUE(late.HasItSoon());
}

TEST_F(GpuLocks, SharingWithinWhatIsHeldAloneChangesNothing) {
  GpuLock lock = Open();
  ASSERT_TRUE(lock.Acquire(Use::kAlone));
  {
    auto hold = GpuHold::Shared(lock);
    ASSERT_TRUE(hold);
  }
  EXPECT_EQ(lock.use(), Use::kAlone);
  lock.Release();
  Holder other(Open(), Use::kAlone);
  EXPECT_TRUE(other.HasItSoon());
}

TEST_F(GpuLocks, WithoutAFolderThereIsNobodyToShareWith) {
  auto one = GpuLock::Open("", "GPU-1"), two = GpuLock::Open("", "GPU-1");
  EXPECT_TRUE(one->Acquire(Use::kAlone));
  EXPECT_TRUE(two->Acquire(Use::kAlone));
}

}  // namespace
}  // namespace cupel::gpu
