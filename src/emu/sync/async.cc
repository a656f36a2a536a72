// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/async.h"

#include <algorithm>
#include <cstring>

#include "emu/check/race_checks.h"
#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {
namespace {

/// More copies than any kernel keeps in flight. Above this limit the oldest copies are completed,
/// which PTX permits.
constexpr size_t kMostCopies = 4096;

void Perform(const BulkCopy& copy) {
  std::memmove(copy.to, copy.from, copy.bytes);
  const Warp& warp = *copy.warp;
  if (!warp.checking) return;
  const auto offset = static_cast<uint64_t>(copy.to - warp.shared);
  if (offset < warp.shared_bytes) {
    warp.block->checker->MakeWritten(static_cast<uint32_t>(offset), copy.bytes);
  } else {
    const uint64_t address = reinterpret_cast<uint64_t>(copy.to) - warp.bias;
    warp.worker->launch->memory->MarkWritten(address, copy.bytes);
  }
}

}  // namespace

bool CopyQueue::Complete(Warp& warp, const LaneCopies& copies, uint32_t lanes, bool check) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(__builtin_ctz(rest));
    std::byte* to = warp.shared + copies.to[lane];
    const uint32_t length = copies.length[lane];
    if (length != 0) std::memcpy(to, copies.from[lane], length);
    if (length < copies.bytes) std::memset(to + length, 0, copies.bytes - length);
  }
  return !check || !warp.checking ||
         CheckShared(warp, copies.op, true, false, lanes, copies.bytes, copies.to.data());
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
    Perform(bulk_.front());
    bulk_.erase(bulk_.begin());
  }
  bulk_.push_back(copy);
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

void CopyQueue::WaitBulk(uint32_t lanes, uint32_t pending) {
  std::erase_if(bulk_, [&](const BulkCopy& copy) {
    const auto lane = static_cast<size_t>(copy.lane);
    if (((lanes >> lane) & 1u) == 0 || uint64_t{copy.group} + pending >= bulk_committed_[lane]) {
      return false;
    }
    Perform(copy);
    return true;
  });
}

bool CopyQueue::Finish(Warp& warp, uint32_t lanes, uint64_t number, bool check) {
  if (copies_.empty()) return true;
  return CompleteWhere(warp, lanes, check,
                       [&](const LaneCopies& copies, size_t) { return copies.number <= number; });
}

void CopyQueue::FinishBulk(uint32_t lanes) {
  std::erase_if(bulk_, [&](const BulkCopy& copy) {
    if (((lanes >> copy.lane) & 1u) == 0) return false;
    Perform(copy);
    return true;
  });
}

MemoryBarrier* AsyncState::Find(uint32_t offset) {
  for (MemoryBarrier& barrier : barriers_) {
    if (barrier.offset == offset) return &barrier;
  }
  return nullptr;
}

void AsyncState::Create(uint32_t offset, uint32_t count) {
  Remove(offset);
  MemoryBarrier barrier;
  barrier.offset = offset;
  barrier.expected = barrier.pending = count;
  barriers_.push_back(barrier);
}

void AsyncState::Remove(uint32_t offset) {
  std::erase_if(barriers_, [&](const MemoryBarrier& barrier) { return barrier.offset == offset; });
}

void AsyncState::Advance(BlockState& block, MemoryBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  // Threads that wait for the phase are ordered after all threads that arrived.
  if (block.checker) block.checker->clocks().SyncAll();
}

bool AsyncState::HasCopies() const {
  return !deliveries_.empty() || std::any_of(queues_.begin(), queues_.end(),
                                             [](const CopyQueue& queue) { return !queue.empty(); });
}

void AsyncState::Expect(BlockState& block, const Delivery& delivery) {
  // Copies may complete at any time. If there are too many, complete all copies of one barrier now.
  if (deliveries_.size() >= kMostCopies) Deliver(block, deliveries_.front().barrier);
  deliveries_.push_back(delivery);
}

bool AsyncState::Deliver(BlockState& block, uint32_t offset) {
  bool fine = true;
  for (size_t i = 0; i < deliveries_.size();) {
    if (deliveries_[i].barrier != offset) {
      ++i;
      continue;
    }
    const Delivery delivery = deliveries_[i];
    deliveries_.erase(deliveries_.begin() + static_cast<std::ptrdiff_t>(i));
    MemoryBarrier* barrier = Find(offset);
    if (delivery.copy.bytes != 0) {
      Perform(delivery.copy);
      if (barrier == nullptr) continue;
      barrier->bytes -= delivery.copy.bytes;
    } else {
      fine =
          QueueOf(*delivery.warp).Finish(*delivery.warp, delivery.lanes, delivery.number) && fine;
      if (barrier == nullptr) continue;
      const auto count = static_cast<uint32_t>(__builtin_popcount(delivery.lanes));
      barrier->pending -= std::min(barrier->pending, count);
    }
    Advance(block, *barrier);
  }
  return fine;
}

AsyncState& AsyncOf(Warp& warp) {
  BlockState& block = *warp.block;
  if (!block.async) block.async = std::make_unique<AsyncState>(block.warps.size());
  return *block.async;
}

void FinishCopies(Warp& warp, uint32_t lanes) {
  CopyQueue& queue = AsyncOf(warp).QueueOf(warp);
  queue.Finish(warp, lanes, UINT64_MAX, false);
  queue.FinishBulk(lanes);
}

}  // namespace cupel::emu
