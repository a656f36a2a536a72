// SPDX-License-Identifier: Apache-2.0
#include "emu/stall.h"

#include <algorithm>

#include "emu/shadow.h"

namespace cupel::emu {
namespace {

// How long those may go on that might give up, in warp instructions: all together at least so many,
// and each of them.
constexpr int64_t kPatience = 50'000'000;
constexpr int64_t kPatienceOfWarp = 250'000;
constexpr int64_t kWhileWaiting = 4'000'000;  // from one look to the next

int64_t PatienceFor(std::span<const Sight> sights) {
  size_t warps = 0;
  for (const Sight& sight : sights) warps += sight.loops.size();
  return std::max(kPatience, kPatienceOfWarp * static_cast<int64_t>(warps));
}

/// Lanes of a warp that wait for each other at different places have come, in the sense of
/// __syncwarp: they go on, as they do where nobody else runs. True when there were any.
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
    : launch_(&launch), first_(may_wait ? kEarlyLook : kFirstLook), interval_(kFirstLook) {
  if (launch.request->look_after > 0) first_ = interval_ = launch.request->look_after;
  next_ = first_;
}

void StallWatch::Restart() {
  next_ = first_;
  mover_ = 0;
  since_ = -1;
}

Outlook StallWatch::Look(std::span<BlockState* const> blocks, int64_t now) {
  if (!IsDue(now) || blocks.empty()) return Outlook::kOpen;
  if (!effects_) {
    const ShadowCode* shadow = launch_->shadow_code;
    effects_ = std::make_unique<LoopEffects>(*launch_->code,
                                             shadow != nullptr ? &shadow->variant->full : nullptr);
  }
  sights_.assign(blocks.size(), {});
  if (mover_ >= blocks.size()) mover_ = 0;
  bool polls = false;
  uint64_t fingerprint = 0;
  // Who moved last time probably does so again: then that is all we need to see.
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t b = (mover_ + i) % blocks.size();
    sights_[b] = LookClosely(*blocks[b], *effects_);
    if (sights_[b].found == Standstill::kStopped) return Outlook::kStopped;
    if (sights_[b].found == Standstill::kMoves) {
      mover_ = b;
      since_ = -1;
      next_ = now + std::max(interval_, now / 8);
      return Outlook::kOpen;
    }
    polls |= sights_[b].found == Standstill::kPolls;
    fingerprint ^= (sights_[b].fingerprint + b) * 0x9e3779b97f4a7c15u;
  }
  return Sum(blocks, now, polls, fingerprint);
}

Outlook StallWatch::Sum(std::span<BlockState* const> blocks, int64_t now, bool polls,
                        uint64_t fingerprint) {
  bool released = false;
  for (BlockState* block : blocks) released |= ReleaseComplete(*block);
  if (released) {
    since_ = -1;
    next_ = now + interval_;
    return Outlook::kOpen;
  }
  if (!polls) return Outlook::kNever;
  if (since_ < 0 || fingerprint != fingerprint_) since_ = now;
  fingerprint_ = fingerprint;
  next_ = now + kWhileWaiting;
  return now - since_ > PatienceFor(sights_) ? Outlook::kGaveUp : Outlook::kWaiting;
}

void StallWatch::Report(std::span<BlockState* const> blocks, uint64_t not_started,
                        Outlook outlook) const {
  ReportStall(blocks, sights_, not_started, outlook == Outlook::kGaveUp ? PatienceFor(sights_) : 0);
}

}  // namespace cupel::emu
