// Tested by unused_read_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/check/follow_code.h"

#include <algorithm>

#include "emu/check/race_trial.h"
#include "emu/check/report.h"
#include "emu/core/block_state.h"
#include "emu/core/handler_table.h"
#include "emu/core/instrument.h"
#include "emu/core/kernel.h"
#include "emu/core/kernel_text.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {
namespace {

WarpFollow& FollowOf(const Warp& warp) { return warp.block->follows[warp.index]; }
const FollowCode::Side& SideOf(const Warp& warp, const Op* op) {
  return FollowOf(warp).code->sides[static_cast<size_t>(op - warp.code)];
}
template <bool IsMasked>
uint32_t ActiveLanes(const Warp& warp) {
  return IsMasked ? warp.active : kFullMask;
}

const Op* EndPass(Warp& warp, const Op* op) {
  FollowOf(warp).trial->Fail();
  return Fault(warp, op, "shared_race", "The value of a racing read is used here.");
}

/// The lanes in which one of the values comes from a racing read.
uint32_t FollowedLanes(const WarpFollow& follow, const std::vector<int>& values) {
  uint32_t lanes = 0;
  for (const int value : values) lanes |= follow.lanes[static_cast<size_t>(value)];
  return lanes;
}

void Follow(WarpFollow& follow, int value, uint32_t lanes) {
  uint32_t& followed = follow.lanes[static_cast<size_t>(value)];
  if (lanes != 0 && followed == 0) follow.followed.push_back(value);
  followed |= lanes;
}

/// True if a followed value decides, or if memory decides and another path may use one.
bool UsesAtDecision(WarpFollow& follow, const InstrFlow& flow, uint32_t active) {
  if (follow.followed.empty()) return false;
  if (flow.guard >= 0 && (follow.lanes[static_cast<size_t>(flow.guard)] & active) != 0) return true;
  if (flow.is_jump && (FollowedLanes(follow, flow.reads) & active) != 0) return true;
  if (!flow.guard_varies && !flow.index_varies) return false;
  if (!flow.is_jump) return (FollowedLanes(follow, flow.reads) & active) != 0;
  std::erase_if(follow.followed,
                [&](int value) { return follow.lanes[static_cast<size_t>(value)] == 0; });
  return std::any_of(follow.followed.begin(), follow.followed.end(), [&](int value) {
    return (follow.lanes[static_cast<size_t>(value)] & active) != 0 &&
           follow.code->flow.IsLiveAfter(flow.block, value);
  });
}

/// Branches, guards and exits.
template <bool IsMasked>
const Op* DecisionThunk(Warp& warp, const Op* op) {
  const FollowCode::Side& side = SideOf(warp, op);
  if (UsesAtDecision(FollowOf(warp), *side.flow, ActiveLanes<IsMasked>(warp))) {
    return EndPass(warp, op);
  }
  return (IsMasked ? side.masked : side.full)(warp, op);
}

/// Changes what a load has read, so that a use of it shows in the results.
void ChangeLoaded(const Warp& warp, const Op* op, uint32_t lanes) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  for (uint32_t i = 0; i < std::min(shape.elements, 4u); ++i) {
    const int32_t slot = i == 0 ? op->dst : op->src[i];
    for (uint32_t rest = slot < 0 ? 0 : lanes; rest != 0; rest &= rest - 1) {
      const int lane = __builtin_ctz(rest);
      if (shape.element_bytes == 8) {
        At<uint64_t>(warp, slot)[lane] ^= ~uint64_t{0};
      } else {
        At<uint32_t>(warp, slot)[lane] ^= ~uint32_t{0};
      }
    }
  }
}

/// Ops that compute, or access memory.
template <bool IsMasked>
const Op* ValueThunk(Warp& warp, const Op* op) {
  WarpFollow& follow = FollowOf(warp);
  const FollowCode::Side& side = SideOf(warp, op);
  const InstrFlow& flow = *side.flow;
  const uint32_t active = ActiveLanes<IsMasked>(warp);
  uint32_t lanes = 0;
  if (!follow.followed.empty()) {
    lanes = FollowedLanes(follow, flow.reads);
    if (flow.rule == ValueRule::kAcross) {
      if (lanes != 0) lanes = kFullMask;
    } else {
      lanes &= active;
    }
    if (lanes != 0 && (flow.rule == ValueRule::kUses || flow.rule == ValueRule::kLoads)) {
      return EndPass(warp, op);
    }
    // If memory decides whether the instruction runs, then another path keeps the old value.
    if (side.is_first && !flow.guard_varies) {
      for (const int value : flow.writes) follow.lanes[static_cast<size_t>(value)] &= ~active;
    }
    for (const int value : flow.writes) Follow(follow, value, lanes);
  }
  const Op* next = side.is_lanewise ? CallLanewise(warp, op, side.full, side.masked, IsMasked)
                                    : (IsMasked ? side.masked : side.full)(warp, op);
  if (flow.rule != ValueRule::kLoads) return next;
  uint32_t raced = follow.trial->TakeRaced();
  if (raced == 0 || next == nullptr) return next;
  if (side.is_plain_load) {
    ChangeLoaded(warp, op, raced);
  } else {
    raced = kFullMask;  // ldmatrix gives a lane's row to others
  }
  for (const int value : flow.writes) Follow(follow, value, raced);
  return next;
}

bool Decides(Micro micro) {
  return micro == Micro::kBranch || micro == Micro::kExitIf || micro == Micro::kGuard ||
         micro == Micro::kIndexedBranch;
}

/// Ops that neither change registers of the kernel nor depend on them.
bool IsSilent(Micro micro) {
  switch (micro) {
    case Micro::kJump:
    case Micro::kMerge:
    case Micro::kFall:
    case Micro::kExit:
    case Micro::kMode:
    case Micro::kYield:
    case Micro::kFence:
    case Micro::kProxyFence:
    case Micro::kDefine:
    case Micro::kCheckDefined:
    case Micro::kWgmmaUse:
      return true;
    default:
      return false;
  }
}

}  // namespace

void WarpFollow::Clear() {
  std::fill(lanes.begin(), lanes.end(), 0);
  followed.clear();
}

std::unique_ptr<FollowCode> MakeFollowCode(const Kernel& kernel) {
  if (kernel.text == nullptr || kernel.code == nullptr || kernel.text->has_calls) return nullptr;
  auto follow = std::make_unique<FollowCode>(*kernel.text);
  follow->sides.resize(kernel.code->ops.size());
  std::vector<bool> begun(follow->flow.instructions(), false);
  bool known = true;
  follow->variant = MakeVariant(*kernel.code, [&](size_t index, const Op& op) -> Thunks {
    const Entry& entry = *kernel.code->entries[index];
    const Micro micro = entry.form.micro;
    if (IsSilent(micro)) return {};
    if (op.source >= follow->flow.instructions()) {
      known = false;
      return {};
    }
    FollowCode::Side& side = follow->sides[index];
    side.full = op.full;
    side.masked = op.masked;
    side.flow = &follow->flow.of(op.source);
    if (Decides(micro)) return {&DecisionThunk<false>, &DecisionThunk<true>};
    side.is_lanewise = entry.is_lanewise;
    side.is_first = !begun[op.source];
    begun[op.source] = true;
    side.is_plain_load = entry.form.shadow() == ShadowRule::kAccess;
    return {&ValueThunk<false>, &ValueThunk<true>};
  });
  follow->variant->guard = &DecisionThunk<false>;
  return known ? std::move(follow) : nullptr;
}

}  // namespace cupel::emu
