// What happens later than it is asked for: cp.async, bulk copies and mbarriers of one block.
//
// Copies are as late as PTX permits. The destination is poisoned when a copy is issued, and source
// and destination are touched when somebody waits for it: by wait_group, or by a wait on the
// mbarrier that it reports to. A kernel that forgets to wait, or overwrites the source too early,
// then computes visibly wrong results. What is never waited for is done when its thread exits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "emu/op.h"

namespace cupel::emu {

/// One cp.async of some lanes of a warp.
struct LaneCopies {
  const Op* op = nullptr;
  uint64_t number = 0;  // in order of issue
  uint32_t lanes = 0;   // that still wait for it
  uint32_t bytes = 0;   // of the destination
  std::array<const std::byte*, kLanes> from{};
  std::array<uint32_t, kLanes> to{};      // offset in shared memory
  std::array<uint32_t, kLanes> length{};  // bytes copied; the rest becomes zero
  std::array<uint32_t, kLanes> group{};   // of the lane
};

/// A bulk copy: one thread's, of many bytes.
struct BulkCopy {
  const Op* op = nullptr;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint32_t bytes = 0;
  uint32_t group = 0;  // of its thread, when it belongs to a bulk group
  int lane = 0;
  Warp* warp = nullptr;
};

/// The copies of one warp's lanes, by group.
class CopyQueue {
 public:
  void Push(Warp& warp, LaneCopies copies);
  void PushBulk(BulkCopy copy);
  void Commit(uint32_t lanes);
  void CommitBulk(uint32_t lanes);
  /// Completes all but the lanes' last `pending` groups; false after an error.
  bool Wait(Warp& warp, uint32_t lanes, uint32_t pending);
  void WaitBulk(uint32_t lanes, uint32_t pending);
  /// Completes everything of these lanes up to `number`, committed or not.
  bool Finish(Warp& warp, uint32_t lanes, uint64_t number = UINT64_MAX, bool check = true);
  void FinishBulk(uint32_t lanes);
  uint64_t last_number() const { return next_ - 1; }
  bool empty() const { return copies_.empty() && bulk_.empty(); }

 private:
  bool Complete(Warp& warp, const LaneCopies& copies, uint32_t lanes, bool check);
  template <class Done>
  bool CompleteWhere(Warp& warp, uint32_t lanes, bool check, Done done);

  std::deque<LaneCopies> copies_;
  std::vector<BulkCopy> bulk_;
  std::array<uint32_t, kLanes> committed_{};
  std::array<uint32_t, kLanes> bulk_committed_{};
  uint64_t next_ = 1;
};

/// A barrier in shared memory. Its eight bytes are opaque to kernels, so its state is kept here.
struct MemoryBarrier {
  uint32_t offset = 0;
  uint32_t expected = 0, pending = 0;
  int64_t bytes = 0;  // that copies still have to deliver in this phase
  uint64_t phase = 0;
};

/// What is to be done before a wait on a barrier is answered.
struct Delivery {
  uint32_t barrier = 0;  // offset
  BulkCopy copy;         // or, without bytes: an arrival after a warp's copies
  Warp* warp = nullptr;
  uint32_t lanes = 0;
  uint64_t number = 0;
};

class AsyncState {
 public:
  explicit AsyncState(size_t warps) : queues_(warps) {}

  CopyQueue& QueueOf(const Warp& warp) { return queues_[warp.index]; }
  MemoryBarrier* Find(uint32_t offset);
  /// Makes (anew) a barrier that `count` arrivals complete.
  void Create(uint32_t offset, uint32_t count);
  void Remove(uint32_t offset);
  /// Lowers what the phase waits for and begins the next when nothing is left.
  void Advance(BlockState& block, MemoryBarrier& barrier);
  void Expect(BlockState& block, const Delivery& delivery);
  /// Carries out what was to be delivered to the barrier; false after an error.
  bool Deliver(BlockState& block, uint32_t offset);
  /// How many deliveries are to come; and whether any copy is under way.
  size_t deliveries() const { return deliveries_.size(); }
  bool HasCopies() const;

 private:
  std::vector<CopyQueue> queues_;
  std::vector<MemoryBarrier> barriers_;
  std::vector<Delivery> deliveries_;
};

/// The block's state, made when it is first needed.
AsyncState& AsyncOf(Warp& warp);
/// Lanes exit: what they never waited for is done.
void FinishCopies(Warp& warp, uint32_t lanes);

}  // namespace cupel::emu
