// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/async.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emu/check/race_checks.h"
#include "emu/check/shared_race.h"
#include "emu/check/sync_notes.h"
#include "emu/core/block_state.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {
namespace {

/// More copies than any kernel keeps in flight. Above this limit the oldest copies are completed,
/// which PTX permits.
constexpr size_t kMostCopies = 4096;

}  // namespace

bool CopyQueue::Complete(Warp& warp, const LaneCopies& copies, uint32_t lanes, bool check) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(__builtin_ctz(rest));
    std::byte* to = warp.shared + copies.to[lane];
    const uint32_t length = copies.length[lane];
    if (length != 0) std::memcpy(to, copies.from[lane], length);
    if (length < copies.bytes) std::memset(to + length, 0, copies.bytes - length);
  }
  if (!warp.checking) return true;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    warp.block->checker->ClearPending(copies.to[static_cast<size_t>(__builtin_ctz(rest))],
                                      copies.bytes);
  }
  AccessKind kind;
  kind.store = kind.copied = true;
  return !check || CheckShared(warp, copies.op, kind, lanes, copies.bytes, copies.to.data());
}

template <class Done>
bool CopyQueue::CompleteWhere(Warp& warp, uint32_t lanes, bool check, Done done) {
  bool fine = true;
  for (LaneCopies& copies : copies_) {
    uint32_t mine = 0;
    for (uint32_t rest = copies.lanes & lanes; rest != 0; rest &= rest - 1) {
      const int lane = __builtin_ctz(rest);
      if (done(copies, static_cast<size_t>(lane))) mine |= 1u << lane;
    }
    if (mine == 0) continue;
    copies.lanes &= ~mine;
    fine = Complete(warp, copies, mine, check) && fine;
  }
  std::erase_if(copies_, [](const LaneCopies& copies) { return copies.lanes == 0; });
  return fine;
}

void CopyQueue::Push(Warp& warp, LaneCopies copies) {
  if (copies_.size() >= kMostCopies) {
    Complete(warp, copies_.front(), copies_.front().lanes, false);
    copies_.pop_front();
  }
  copies.number = next_++;
  copies.group = committed_;
  copies_.push_back(copies);
}

void CopyQueue::PushBulk(BulkCopy copy) {
  copy.group = bulk_committed_[static_cast<size_t>(copy.lane)];
  if (bulk_.size() >= kMostCopies) {
    Perform(*copy.warp, bulk_.front());
    bulk_.erase(bulk_.begin());
  }
  bulk_.push_back(std::move(copy));
}

void CopyQueue::Commit(uint32_t lanes) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    ++committed_[static_cast<size_t>(__builtin_ctz(rest))];
  }
}
void CopyQueue::CommitBulk(uint32_t lanes) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    ++bulk_committed_[static_cast<size_t>(__builtin_ctz(rest))];
  }
}

bool CopyQueue::Wait(Warp& warp, uint32_t lanes, uint32_t pending) {
  return CompleteWhere(warp, lanes, true, [&](const LaneCopies& copies, size_t lane) {
    return uint64_t{copies.group[lane]} + pending < committed_[lane];
  });
}

bool CopyQueue::WaitBulk(Warp& warp, uint32_t lanes, uint32_t pending) {
  std::erase_if(bulk_, [&](BulkCopy& copy) {
    const auto lane = static_cast<size_t>(copy.lane);
    if (((lanes >> lane) & 1u) == 0 || uint64_t{copy.group} + pending >= bulk_committed_[lane]) {
      return false;
    }
    Perform(warp, copy);
    return true;
  });
  return warp.stop != Stop::kFault;
}

bool CopyQueue::Finish(Warp& warp, uint32_t lanes, uint64_t number, bool check) {
  if (copies_.empty()) return true;
  return CompleteWhere(warp, lanes, check,
                       [&](const LaneCopies& copies, size_t) { return copies.number <= number; });
}

void CopyQueue::FinishBulk(Warp& warp, uint32_t lanes) {
  std::erase_if(bulk_, [&](BulkCopy& copy) {
    if (((lanes >> copy.lane) & 1u) == 0) return false;
    Perform(warp, copy);
    return true;
  });
}

MemoryBarrier* AsyncState::Find(uint32_t offset) {
  for (MemoryBarrier& barrier : barriers_) {
    if (barrier.offset == offset) return &barrier;
  }
  return nullptr;
}

MemoryBarrier& AsyncState::Create(uint32_t offset, uint32_t count) {
  Remove(offset);
  MemoryBarrier& barrier = barriers_.emplace_back();
  barrier.offset = offset;
  barrier.expected = barrier.pending = count;
  return barrier;
}

void AsyncState::Remove(uint32_t offset) {
  std::erase_if(barriers_, [&](const MemoryBarrier& barrier) { return barrier.offset == offset; });
}

void AsyncState::Advance(MemoryBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  // Threads that wait for the phase are ordered after all threads that arrived, also in earlier
  // phases: each arrival reads what the one before it wrote.
  barrier.completed = barrier.arrived;
}

bool AsyncState::HasCopies() const {
  return !deliveries_.empty() || std::any_of(queues_.begin(), queues_.end(),
                                             [](const CopyQueue& queue) { return !queue.empty(); });
}

TensorMemory& AsyncState::TensorOf(const Warp& warp) {
  if (!tensor_) {
    tensor_ = std::make_unique<TensorMemory>(warp.block->warps.size(), warp.worker->launch->poison);
  }
  return *tensor_;
}

bool AsyncState::Expect(Warp& warp, Delivery delivery) {
  // Copies may complete at any time. If there are too many, complete the oldest one now.
  if (deliveries_.size() >= kMostCopies) {
    Delivery oldest = std::move(deliveries_.front());
    deliveries_.pop_front();
    if (!Complete(warp, Find(oldest.barrier), oldest, UINT64_MAX)) return false;
  }
  deliveries_.push_back(std::move(delivery));
  return true;
}

/// The tcgen05 operations of a thread are complete, and arrive at the barrier.
bool AsyncState::CompleteCommit(Warp& waiter, MemoryBarrier& barrier, const Delivery& delivery) {
  barrier.pending -= std::min(barrier.pending, 1u);
  Warp& issuer = *delivery.warp;
  const bool is_remote = issuer.block != waiter.block;
  barrier.has_remote_arrivals |= is_remote;
  if (!waiter.checking) return true;
  const auto thread = issuer.index * kLanes + static_cast<uint32_t>(__builtin_ctz(delivery.lanes));
  const auto number = static_cast<uint32_t>(delivery.number);
  if (is_remote) {
    TensorMemory& memory = AsyncOf(issuer).TensorOf(issuer);
    if (!memory.Complete(issuer, thread, number)) {
      waiter.stop = Stop::kFault;
      return false;
    }
    memory.Follow(issuer, thread, number);
    NoteRelease(issuer);  // the waiter acquires
    return true;
  }
  BlockClocks& clocks = waiter.block->checker->clocks();
  if (!TensorOf(waiter).Complete(waiter, thread, number)) return false;
  clocks.ArriveAt(issuer.index, delivery.clock, barrier.arrived);
  std::erase_if(barrier.commits, [&](const auto& commit) { return commit.first == thread; });
  barrier.commits.emplace_back(thread, number);
  return true;
}

/// Does up to `most` bytes of a delivery; `barrier` may be null.
bool AsyncState::Complete(Warp& waiter, MemoryBarrier* barrier, Delivery& delivery, uint64_t most) {
  bool fine = true;
  if (!delivery.copy.runs.empty()) {
    const BulkCopy& copy = delivery.copy;
    const uint64_t done = Perform(waiter, delivery.copy, most);
    fine = waiter.stop != Stop::kFault;
    if (barrier == nullptr) return fine;
    barrier->bytes -= static_cast<int64_t>(done);
    BlockState& block = *waiter.block;
    if (copy.warp->block != &block) {
      barrier->has_remote_arrivals = true;
    } else if (block.checker) {
      block.checker->clocks().ArriveCopy(copy.warp->index, copy.clock, barrier->arrived);
    }
  } else if (delivery.is_commit) {
    if (barrier == nullptr) return true;
    fine = CompleteCommit(waiter, *barrier, delivery);
  } else {
    Warp& warp = *delivery.warp;
    fine = QueueOf(warp).Finish(warp, delivery.lanes, delivery.number);
    if (!fine) waiter.stop = Stop::kFault;
    if (barrier == nullptr) return fine;
    const auto count = static_cast<uint32_t>(__builtin_popcount(delivery.lanes));
    barrier->pending -= std::min(barrier->pending, count);
    if (waiter.block->checker) {
      waiter.block->checker->clocks().Arrive(warp.index, barrier->arrived);
    }
  }
  Advance(*barrier);
  return fine;
}

bool AsyncState::Deliver(Warp& waiter, MemoryBarrier& barrier) {
  const uint64_t phase = barrier.phase;
  const uint32_t offset = barrier.offset;
  // Arrivals come first: the bytes that the phase waits for are then known.
  for (const bool copies : {false, true}) {
    for (size_t i = 0; i < deliveries_.size() && barrier.phase == phase;) {
      if (deliveries_[i].barrier != offset || deliveries_[i].copy.runs.empty() == copies) {
        ++i;
        continue;
      }
      // A copy may complete at any time, but the phase does not need this one yet.
      if (copies && (barrier.pending != 0 || barrier.bytes <= 0)) return true;
      const uint64_t most = copies ? static_cast<uint64_t>(barrier.bytes) : 0;
      if (!Complete(waiter, &barrier, deliveries_[i], most)) return false;
      if (!copies || deliveries_[i].copy.IsDone()) {
        deliveries_.erase(deliveries_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
  return true;
}

bool AsyncState::DeliverAll(Warp& last) {
  while (!deliveries_.empty()) {
    Delivery oldest = std::move(deliveries_.front());
    deliveries_.pop_front();
    if (!Complete(last, nullptr, oldest, UINT64_MAX)) return false;
  }
  return registers_.Check(last) && (!tensor_ || tensor_->CheckFreed(last));
}

AsyncState& AsyncOf(BlockState& block) {
  if (!block.async) block.async = std::make_unique<AsyncState>(block.warps.size());
  return *block.async;
}

void FinishCopies(Warp& warp, uint32_t lanes) {
  CopyQueue& queue = AsyncOf(warp).QueueOf(warp);
  queue.Finish(warp, lanes, UINT64_MAX, false);
  queue.FinishBulk(warp, lanes);
}

}  // namespace cupel::emu
