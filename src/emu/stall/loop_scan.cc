// Tested by stall_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/stall/loop_scan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "emu/check/report.h"
#include "emu/core/block_state.h"
#include "emu/core/cluster.h"
#include "emu/core/kernel.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/cost/profile.h"
#include "emu/sync/async.h"
#include "emu/sync/groups.h"

namespace cupel::emu {
namespace {

constexpr uint32_t kMostSteps = 20'000;  // ops of a warp
constexpr uint32_t kMostVisits = 512;    // backward jumps of a warp
constexpr int kMostRounds = 64;
constexpr int64_t kMostWork = 4'000'000;               // steps of path analysis
constexpr int64_t kUnlimitedSlice = int64_t{1} << 40;  // more instructions than a scan executes
constexpr uint32_t kRotateNow = uint32_t{1} << 30;     // Warp::spin: other groups run at once

/// The control state of a warp. It determines, with registers and memory, what the warp does next.
struct Position {
  const Op* pc = nullptr;
  uint32_t active = 0;
  bool sticky = false, forced = false;
  std::vector<Group> groups;  // in the order of their lanes

  explicit Position(const Warp& warp, const Op* at)
      : pc(at),
        active(warp.active),
        sticky(warp.sticky),
        forced(warp.forced),
        groups(warp.other.begin(), warp.other.begin() + warp.others) {
    std::sort(groups.begin(), groups.end(),
              [](const Group& a, const Group& b) { return a.mask < b.mask; });
  }
  Position() = default;
  bool operator==(const Position& other) const {
    const auto same = [](const Group& a, const Group& b) {
      return a.pc == b.pc && a.mask == b.mask && a.state == b.state && a.barrier == b.barrier &&
             a.forced == b.forced && a.sync_mask == b.sync_mask;
    };
    return pc == other.pc && active == other.active && sticky == other.sticky &&
           forced == other.forced &&
           std::equal(groups.begin(), groups.end(), other.groups.begin(), other.groups.end(), same);
  }
};

/// The state of the scan for one warp.
struct View {
  Warp* warp = nullptr;
  Position position;             // the snapshot that later visits are compared with,
  std::vector<std::byte> frame;  // and its registers
  std::vector<PathStep> path;    // since the snapshot
  bool changed_private = false;  // local memory has changed since the snapshot
  uint32_t visits = 0, next_snapshot = 1, steps = 0;
  uint32_t since = 0;  // visits since the snapshot
  LoopFacts facts;
  LoopingWarp loop;
  bool is_known() const { return facts.kind != LoopKind::kOpen; }
};

class LoopScanner {
 public:
  LoopScanner(BlockState& block, const LoopEffects& effects)
      : block_(block),
        effects_(effects),
        code_(block.worker->launch->code->ops.data()),
        frame_bytes_(static_cast<size_t>(block.worker->launch->code->frame_bytes)),
        observed_(!block.worker->launch->request->only.empty()) {}

  LoopScan Run() {
    std::vector<View> views(block_.warps.size());
    for (size_t w = 0; w < views.size(); ++w) views[w].warp = &block_.warps[w];
    for (int round = 0; round < kMostRounds && !changed_; ++round) {
      bool ran = false;
      for (const uint32_t w : block_.order) {
        View& view = views[w];
        if (view.warp->live == 0 || !block_.ready[w]) continue;
        if (view.is_known() && !view.facts.uses_barriers) continue;
        ran = true;
        if (!Turn(view)) return {StallState::kStopped, {}, 0};
        // One warp that makes progress is enough.
        if (changed_ || work_ <= 0 || (!view.is_known() && IsExhausted(view))) return {};
        if (std::exchange(exited_, false)) Restart(views);
      }
      if (AllKnown(views)) return Sum(views);
      if (!ran) return {};
    }
    return {};
  }

 private:
  static bool IsExhausted(const View& view) {
    return view.steps > kMostSteps || view.visits > kMostVisits;
  }
  /// After threads have exited, discards earlier results, except for loops without barriers.
  static void Restart(std::vector<View>& views) {
    for (View& view : views) {
      if (view.is_known() && !view.facts.uses_barriers) continue;
      view.visits = 0;
      view.next_snapshot = 1;
      view.path.clear();
      view.facts = {};
    }
  }

  /// True if every warp repeats a loop, or waits for threads that do not arrive. If some loops use
  /// barriers, no other lane may wait at a barrier, because the loops might release it.
  bool AllKnown(const std::vector<View>& views) const {
    const bool any_barrier = std::any_of(views.begin(), views.end(), [](const View& view) {
      return view.is_known() && view.facts.uses_barriers;
    });
    return std::all_of(views.begin(), views.end(), [&](const View& view) {
      if (view.warp->live == 0) return true;
      if (!view.is_known()) return !any_barrier && !block_.ready[view.warp->index];
      return !any_barrier || !HasBlocked(view.position);
    });
  }
  static bool HasBlocked(const Position& position) {
    return std::any_of(position.groups.begin(), position.groups.end(),
                       [](const Group& group) { return group.state == GroupState::kBarrier; });
  }

  LoopScan Sum(const std::vector<View>& views) const {
    LoopScan scan;
    bool polls = false;
    for (const View& view : views) {
      if (view.warp->live == 0) continue;
      if (!view.is_known()) continue;
      scan.loops.push_back(view.loop);
      polls |= view.facts.kind == LoopKind::kPolls;
      for (const PathStep& step : view.path) {
        if (effects_.of(step.op).kind != Effect::kRead) continue;
        if (CopiesUnderWay()) return {};
        break;
      }
      for (const uint64_t part : {uint64_t{view.loop.warp}, view.loop.named}) {
        scan.fingerprint = (scan.fingerprint ^ part) * 0x9e3779b97f4a7c15u;
      }
    }
    if (scan.loops.empty() && !OnlyBarriers()) return {};
    scan.found = polls ? StallState::kPolls : StallState::kWaits;
    return scan;
  }

  /// True if all lanes wait at barriers, which only another block of the cluster can open.
  bool OnlyBarriers() const {
    return block_.cluster->several() &&
           std::all_of(block_.warps.begin(), block_.warps.end(), [](const Warp& warp) {
             return warp.active == 0 &&
                    std::all_of(
                        warp.other.begin(), warp.other.begin() + warp.others,
                        [](const Group& group) { return group.state == GroupState::kBarrier; });
           });
  }

  bool CopiesUnderWay() const { return block_.async && block_.async->HasCopies(); }
  size_t IndexOf(const Op* op) const { return static_cast<size_t>(op - code_); }

  /// Runs the warp until it waits or until its loop becomes known. Returns false after an error.
  bool Turn(View& view) {
    Warp& warp = *view.warp;
    if (warp.active == 0 && !PickGroup(warp)) {
      block_.ready[warp.index] = false;
      return true;
    }
    warp.slice = kUnlimitedSlice;
    const bool fine = Walk(view);
    warp.spin = 0;
    SettleTurn(warp, kUnlimitedSlice);
    block_.worker->yields = false;
    return fine;
  }

  bool Walk(View& view) {
    Warp& warp = *view.warp;
    const Op* op = warp.pc;
    for (;;) {
      warp.spin = kRotateNow;
      warp.stop = Stop::kRunning;
      const Op* next = Step(view, op);
      if (next == nullptr) {
        if (warp.stop == Stop::kFault) return false;
        if (warp.stop == Stop::kSwitch) {
          warp.active = 0;
          if (!PickGroup(warp)) {
            block_.ready[warp.index] = false;
            return true;
          }
        }
        next = warp.pc;
      }
      if (next > op) {
        op = next;
        continue;
      }
      // A turn may end here, between two basic blocks.
      warp.pc = op = next;
      warp.spin = 0;
      const bool was_known = view.is_known();
      if (!changed_) Visit(view, next);
      if (changed_ || exited_ || IsExhausted(view) || (view.is_known() && !was_known)) {
        return true;
      }
    }
  }

  /// Called after a backward jump to `at`. If the warp was here before, judges the loop by how the
  /// registers have changed since then.
  void Visit(View& view, const Op* at) {
    Warp& warp = *view.warp;
    ++view.visits;
    ++view.since;
    Position position(warp, at);
    if (!view.is_known() && view.visits > 1 && !view.changed_private && ShouldCompare(view) &&
        position == view.position && AllHaveRun(view)) {
      const FrameSet varying = Difference(view.frame.data(), warp.frame, frame_bytes_);
      work_ -= static_cast<int64_t>(frame_bytes_ / 64);
      view.facts = Judge(effects_, view.path, varying, &work_);
      if (view.is_known()) RecordLoop(view, at);
    }
    if (view.is_known() || view.visits < view.next_snapshot) return;
    view.next_snapshot *= 2;
    view.since = 0;
    view.position = std::move(position);
    view.frame.assign(warp.frame, warp.frame + frame_bytes_);
    view.path.clear();
    view.changed_private = false;
  }

  /// Nested loops need longer paths. Judging them at powers of two bounds the total work.
  static bool ShouldCompare(const View& view) {
    return std::has_single_bit(view.since) || view.visits + 1 == view.next_snapshot;
  }

  /// True if all lanes that could run have run since the snapshot.
  static bool AllHaveRun(const View& view) {
    uint32_t ran = 0, could = view.warp->active;
    for (const PathStep& step : view.path) ran |= step.lanes;
    for (const Group& group : view.position.groups) {
      if (group.state == GroupState::kRunnable) could |= group.mask;
    }
    return (could & ~ran) == 0;
  }

  void RecordLoop(View& view, const Op* at) const {
    LoopingWarp& loop = view.loop;
    loop = {view.warp->index, view.facts.kind, at, false, view.warp->active, 0};
    if (view.facts.awaited == UINT32_MAX) {
      for (const PathStep& step : view.path) {
        loop.at = code_ + step.op;
        if (Describe(*view.warp, loop.at, "", 0).line != 0) return;
      }
      return;
    }
    const PathStep& step = view.path[view.facts.awaited];
    loop.at = code_ + step.op;
    loop.waits = true;
    loop.lanes = step.lanes;
    loop.named = step.named;
  }

  const Op* Step(View& view, const Op* op) {
    Warp& warp = *view.warp;
    touched_.clear();
    Note(view, op, warp.active, false);
    if (effects_.of(IndexOf(op)).kind == Effect::kGuard) {
      const uint32_t lanes = (MaskAt(warp, op->src[0]) ^ op->aux) & warp.active;
      for (uint32_t i = 1; lanes != 0 && i <= op->count; ++i) Note(view, op + i, lanes, i > 1);
    }
    const uint32_t live = warp.live;
    const size_t expected = block_.async ? block_.async->deliveries() : 0;
    const Op* next = nullptr;
    if (observed_ || warp.counting) {
      next = StepObserved(warp, op);
    } else {
      next = warp.active == kFullMask ? op->full(warp, op) : op->masked(warp, op);
    }
    exited_ |= warp.live != live;
    // Other blocks of the cluster may wait for threads that exit.
    changed_ |= exited_ && block_.cluster->several();
    changed_ |=
        block_.live_threads == 0 || (block_.async && block_.async->deliveries() != expected);
    for (const Touched& touched : touched_) {
      if (std::memcmp(touched.host, touched.before.data(), touched.bytes) == 0) continue;
      (touched.is_private ? view.changed_private : changed_) = true;
    }
    return next;
  }

  /// Call this before `lanes` execute an op. `is_late`: other ops execute first and may compute its
  /// address.
  void Note(View& view, const Op* op, uint32_t lanes, bool is_late) {
    ++view.steps;
    const size_t index = IndexOf(op);
    const OpEffect& effect = effects_.of(index);
    PathStep step{static_cast<uint32_t>(index), lanes, 0};
    const Warp& warp = *view.warp;
    const int first = lanes == 0 ? 0 : __builtin_ctz(lanes);
    switch (effect.kind) {
      case Effect::kOther:
        changed_ = true;
        return;
      case Effect::kBarrier:
        if (op->src[2] >= 0) step.named = MaskAt(warp, op->src[2]) & lanes;
        break;
      case Effect::kWrite:
      case Effect::kUpdate:
        if (is_late) changed_ = true;
        NoteTouched(warp, op, lanes, &touched_);
        step.named = AddressOf(warp, op, first);
        break;
      case Effect::kRead:
        step.named = AddressOf(warp, op, first);
        break;
      case Effect::kWait:
        step.named = (op->aux & kMbarrierGeneric) != 0
                         ? At<const uint64_t>(warp, op->src[0])[first] - kSharedWindow
                         : At<const uint32_t>(warp, op->src[0])[first];
        step.named += static_cast<uint64_t>(static_cast<int64_t>(op->target));
        break;
      default:
        break;
    }
    if (!view.is_known()) view.path.push_back(step);
  }

  BlockState& block_;
  const LoopEffects& effects_;
  const Op* code_;
  size_t frame_bytes_;
  bool observed_;
  bool changed_ = false;
  int64_t work_ = kMostWork;
  bool exited_ = false;  // a lane has exited, so barriers no longer wait for it
  std::vector<Touched> touched_;
};

}  // namespace

LoopScan ScanLoops(BlockState& block, const LoopEffects& effects) {
  return LoopScanner(block, effects).Run();
}

}  // namespace cupel::emu
