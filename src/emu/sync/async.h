// Asynchronous operations of one block: cp.async, bulk copies, mbarriers, wgmma and tcgen05.
//
// Each copy happens as late as PTX permits. Issuing a copy poisons its destination. The data is
// copied when a thread waits for it with wait_group or on the copy's mbarrier, and no more of it
// than the wait needs. If a kernel forgets to wait, or overwrites the source too early, its results
// are visibly wrong. Copies that no thread waits for are completed when their thread exits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emu/core/block_state.h"
#include "emu/core/op.h"
#include "emu/core/race_clock.h"
#include "emu/core/warp.h"
#include "emu/sync/bulk_copy.h"
#include "emu/sync/register_pool.h"
#include "emu/sync/tensor_memory.h"
#include "emu/sync/warpgroups.h"

namespace cupel::emu {

/// One cp.async of some lanes of a warp.
struct LaneCopies {
  const Op* op = nullptr;
  uint64_t number = 0;  // in order of issue
  uint32_t lanes = 0;   // lanes whose copy is still in flight
  uint32_t bytes = 0;   // bytes per lane at the destination
  std::array<const std::byte*, kLanes> from{};
  std::array<uint32_t, kLanes> to{};      // offset in shared memory
  std::array<uint32_t, kLanes> length{};  // bytes copied; the rest becomes zero
  std::array<uint32_t, kLanes> group{};   // index of the lane's group
};

/// The copies of one warp's lanes, by group.
class CopyQueue {
 public:
  void Push(Warp& warp, LaneCopies copies);
  void PushBulk(BulkCopy copy);
  void Commit(uint32_t lanes);
  void CommitBulk(uint32_t lanes);
  /// Completes all but the lanes' last `pending` groups. Returns false after an error.
  bool Wait(Warp& warp, uint32_t lanes, uint32_t pending);
  bool WaitBulk(Warp& warp, uint32_t lanes, uint32_t pending);
  /// Completes all copies of these lanes up to `number`, committed or not.
  bool Finish(Warp& warp, uint32_t lanes, uint64_t number = UINT64_MAX, bool check = true);
  void FinishBulk(Warp& warp, uint32_t lanes);
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

/// An mbarrier. Its eight bytes in shared memory are opaque to kernels, so its state is kept here.
struct MemoryBarrier {
  uint32_t offset = 0;
  uint32_t expected = 0, pending = 0;
  int64_t bytes = 0;  // bytes that copies must still deliver in this phase
  uint64_t phase = 0;
  const Op* init = nullptr;  // who initialised it: instruction, thread and its clock
  uint32_t init_thread = 0, init_clock = 0;
  Knowledge arrived;                 // of all threads and copies that arrived so far
  Knowledge completed;               // the same when the last phase was completed
  bool has_remote_arrivals = false;  // of other blocks' threads and copies
  /// Threads, and the last of their tcgen05 operations that a phase has completed.
  std::vector<std::pair<uint32_t, uint32_t>> commits;
};

/// Work to complete before a wait on a barrier returns.
struct Delivery {
  uint32_t barrier = 0;    // offset
  BulkCopy copy;           // if it has no runs, this is an arrival after a warp's operations:
  bool is_commit = false;  // those of tcgen05 by one lane; else its copies
  Warp* warp = nullptr;
  uint32_t lanes = 0;
  uint64_t number = 0;  // of the last operation
  uint32_t clock = 0;   // of the warp at a commit
};

class AsyncState {
 public:
  explicit AsyncState(size_t warps) : queues_(warps), warpgroups_(warps), registers_(warps) {}

  CopyQueue& QueueOf(const Warp& warp) { return queues_[warp.index]; }
  Warpgroups& warpgroups() { return warpgroups_; }
  /// Created on first use.
  TensorMemory& TensorOf(const Warp& warp);
  RegisterPool& registers() { return registers_; }
  MemoryBarrier* Find(uint32_t offset);
  /// Creates or replaces a barrier that completes after `count` arrivals.
  MemoryBarrier& Create(uint32_t offset, uint32_t count);
  void Remove(uint32_t offset);
  /// Starts the next phase if the current one waits for neither arrivals nor bytes.
  void Advance(MemoryBarrier& barrier);
  /// Returns false after an error.
  bool Expect(Warp& warp, Delivery delivery);
  /// `waiter` waits for the current phase of the barrier: completes the deliveries that it needs.
  /// Returns false after an error.
  bool Deliver(Warp& waiter, MemoryBarrier& barrier);
  /// Completes all deliveries: the block has ended. Returns false after an error, also if it has
  /// not freed its tensor memory, or if its warps kept more registers than it has.
  bool DeliverAll(Warp& last);
  /// The number of pending deliveries.
  size_t deliveries() const { return deliveries_.size(); }
  /// True if any copy is in flight.
  bool HasCopies() const;

 private:
  bool Complete(Warp& waiter, MemoryBarrier* barrier, Delivery& delivery, uint64_t most);
  bool CompleteCommit(Warp& waiter, MemoryBarrier& barrier, const Delivery& delivery);

  std::vector<CopyQueue> queues_;
  Warpgroups warpgroups_;
  RegisterPool registers_;
  std::unique_ptr<TensorMemory> tensor_;
  std::vector<MemoryBarrier> barriers_;
  std::deque<Delivery> deliveries_;
};

/// The block's asynchronous state, created on first use.
AsyncState& AsyncOf(BlockState& block);
inline AsyncState& AsyncOf(Warp& warp) { return AsyncOf(*warp.block); }
/// Completes all copies of exiting lanes.
void FinishCopies(Warp& warp, uint32_t lanes);

}  // namespace cupel::emu
