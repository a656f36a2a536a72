// SPDX-License-Identifier: Apache-2.0
#include "emu/stall/stall.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emu/core/block_state.h"
#include "emu/core/launch_state.h"
#include "emu/core/memory.h"
#include "emu/core/warp.h"

namespace cupel::emu {
namespace {

// How long warps that might give up may continue, in warp instructions: a minimum for all together,
// and a minimum for each.
constexpr int64_t kPatience = 50'000'000;
constexpr int64_t kPatienceOfWarp = 250'000;
constexpr int64_t kWhileWaiting = 4'000'000;  // between two checks

int64_t PatienceFor(std::span<const LoopScan> scans) {
  size_t warps = 0;
  for (const LoopScan& scan : scans) warps += scan.loops.size();
  return std::max(kPatience, kPatienceOfWarp * static_cast<int64_t>(warps));
}

/// A hash of memory. Equal hashes are treated as equal contents.
class ContentsHash {
 public:
  void Add(const std::byte* bytes, uint64_t size) {
    size_ += size;
    uint64_t lanes[4] = {hash_, hash_ + 1, hash_ + 2, hash_ + 3};
    uint64_t at = 0;
    for (; at + sizeof lanes <= size; at += sizeof lanes) {
      uint64_t words[4];
      std::memcpy(words, bytes + at, sizeof words);
      for (int i = 0; i < 4; ++i) lanes[i] = std::rotl((lanes[i] ^ words[i]) * kFactor, 29);
    }
    for (; at < size; ++at) lanes[0] = (lanes[0] ^ static_cast<uint64_t>(bytes[at])) * kFactor;
    for (const uint64_t lane : lanes) hash_ = std::rotl((hash_ ^ lane) * kFactor, 31);
  }
  uint64_t hash() const { return hash_; }
  uint64_t size() const { return size_; }

 private:
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  uint64_t hash_ = 0, size_ = 0;
};

ContentsHash HashMemory(const GlobalMemory& memory, std::span<BlockState* const> blocks) {
  ContentsHash hash;
  for (const Allocation& allocation : memory.allocations()) {
    hash.Add(memory.Host(allocation.begin), allocation.end - allocation.begin);
  }
  for (const BlockState* block : blocks) {
    hash.Add(block->warps[0].shared, block->warps[0].shared_bytes);
  }
  return hash;
}

/// Lanes of a warp that wait for each other at different places count as arrived (__syncwarp). They
/// continue, as they do if no other warp runs. Returns true if there were any.
bool ReleaseComplete(BlockState& block) {
  bool released = false;
  for (Warp& warp : block.warps) {
    for (int i = 0; i < warp.others; ++i) {
      const Group& first = warp.other[static_cast<size_t>(i)];
      if (first.state != GroupState::kSync) continue;
      const uint32_t named = first.sync_mask & warp.live;
      uint32_t come = 0;
      const auto waits_too = [&](const Group& group) {
        return group.state == GroupState::kSync && (group.sync_mask & warp.live) == named;
      };
      for (int j = 0; j < warp.others; ++j) {
        const Group& group = warp.other[static_cast<size_t>(j)];
        if (waits_too(group)) come |= group.mask;
      }
      if ((named & ~come) != 0) continue;
      for (int j = warp.others - 1; j >= 0; --j) {
        Group& group = warp.other[static_cast<size_t>(j)];
        if (j == i || !waits_too(group)) continue;
        group.state = GroupState::kRunnable;
        group.forced = true;
      }
      warp.other[static_cast<size_t>(i)].state = GroupState::kRunnable;
      warp.other[static_cast<size_t>(i)].forced = true;
      block.ready[warp.index] = true;
      released = true;
    }
  }
  return released;
}

}  // namespace

StallWatch::StallWatch(const LaunchState& launch, bool may_wait)
    : launch_(&launch), first_(may_wait ? kEarlyCheck : kFirstCheck), interval_(kFirstCheck) {
  if (launch.request->stall_check_interval > 0) {
    first_ = interval_ = launch.request->stall_check_interval;
  }
  next_ = first_;
}

void StallWatch::Restart() {
  next_ = first_;
  last_moved_ = 0;
  since_ = -1;
}

StallOutcome StallWatch::Check(std::span<BlockState* const> blocks, int64_t now) {
  if (!IsDue(now) || blocks.empty()) return StallOutcome::kOpen;
  if (!effects_) {
    effects_ = std::make_unique<LoopEffects>(*launch_->code);
  }
  scans_.assign(blocks.size(), {});
  if (last_moved_ >= blocks.size()) last_moved_ = 0;
  bool polls = false;
  uint64_t fingerprint = 0;
  // Starts with the block that made progress last time: if it does so again, no more is needed.
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t b = (last_moved_ + i) % blocks.size();
    scans_[b] = ScanLoops(*blocks[b], *effects_);
    if (scans_[b].found == StallState::kStopped) return StallOutcome::kStopped;
    if (scans_[b].found == StallState::kProgress) {
      last_moved_ = b;
      since_ = -1;
      next_ = now + std::max(interval_, now / 8);
      return StallOutcome::kOpen;
    }
    polls |= scans_[b].found == StallState::kPolls;
    fingerprint ^= (scans_[b].fingerprint + b) * 0x9e3779b97f4a7c15u;
  }
  return Sum(blocks, now, polls, fingerprint);
}

StallOutcome StallWatch::Sum(std::span<BlockState* const> blocks, int64_t now, bool polls,
                             uint64_t fingerprint) {
  bool released = false;
  for (BlockState* block : blocks) released |= ReleaseComplete(*block);
  if (released) {
    since_ = -1;
    next_ = now + interval_;
    return StallOutcome::kOpen;
  }
  const bool any_loop = std::any_of(scans_.begin(), scans_.end(),
                                    [](const LoopScan& scan) { return !scan.loops.empty(); });
  if (!any_loop) return StallOutcome::kOpen;  // a deadlock, which the scheduler reports
  if (!polls) return StallOutcome::kNever;
  // Changes between two checks are visible in the memory contents.
  const ContentsHash contents = HashMemory(*launch_->memory, blocks);
  fingerprint ^= contents.hash();
  if (since_ < 0 || fingerprint != fingerprint_) since_ = now;
  fingerprint_ = fingerprint;
  // A check should not take longer than the work between checks.
  next_ = now + std::max(kWhileWaiting, static_cast<int64_t>(contents.size() / 32));
  return now - since_ > PatienceFor(scans_) ? StallOutcome::kGaveUp : StallOutcome::kWaiting;
}

void StallWatch::Report(std::span<BlockState* const> blocks, uint64_t not_started,
                        StallOutcome outcome) const {
  ReportStall(blocks, scans_, not_started,
              outcome == StallOutcome::kGaveUp ? PatienceFor(scans_) : 0);
}

}  // namespace cupel::emu
