// Votes, matches, reductions over a warp, and warp barriers. The last source is the membermask.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/warp.h"

#include <cstring>

#include "emu/core/block_state.h"
#include "emu/core/handler_table.h"
#include "emu/core/launch_state.h"
#include "emu/core/op.h"
#include "emu/core/worker.h"
#include "emu/ops/handlers.h"
#include "emu/ops/warp_parts.h"

namespace cupel::emu {
namespace {

void GiveMask(const Warp& warp, int32_t slot, uint32_t lanes, uint32_t value) {
  uint32_t& mask = MaskAt(warp, slot);
  mask = (mask & ~lanes) | (value & lanes);
}
void GiveWord(const Warp& warp, int32_t slot, uint32_t lanes, uint32_t value) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    At<uint32_t>(warp, slot)[__builtin_ctz(rest)] = value;
  }
}

enum class Vote { kAll, kAny, kUniform, kBallot };
template <Vote V>
const Op* VoteLanes(Warp& warp, const Op* op) {
  const uint32_t lanes = Participants(warp, op, 1);
  if (lanes == 0) return nullptr;
  const uint32_t yes = MaskAt(warp, op->src[0]) & lanes;
  if constexpr (V == Vote::kBallot) {
    GiveWord(warp, op->dst, lanes, yes);
  } else {
    const bool result =
        V == Vote::kAll ? yes == lanes : (V == Vote::kAny ? yes != 0 : yes == lanes || yes == 0);
    GiveMask(warp, op->dst, lanes, result ? kFullMask : 0);
  }
  return op + 1;
}

/// Lanes of `lanes` whose value equals that of lane `of`.
template <class T>
uint32_t Equal(const T* values, uint32_t lanes, int of) {
  uint32_t same = 0;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    same |= uint32_t{values[i] == values[of]} << i;
  }
  return same;
}
template <class T>
const Op* MatchAny(Warp& warp, const Op* op) {
  const uint32_t lanes = Participants(warp, op, 1);
  if (lanes == 0) return nullptr;
  const auto* values = At<const T>(warp, op->src[0]);
  uint32_t result[kLanes] = {};
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    result[i] = Equal(values, lanes, i);
  }
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    At<uint32_t>(warp, op->dst)[i] = result[i];
  }
  return op + 1;
}
template <class T, bool IsPredicate>
const Op* MatchAll(Warp& warp, const Op* op) {
  const uint32_t lanes = Participants(warp, op, 1);
  if (lanes == 0) return nullptr;
  const bool all = Equal(At<const T>(warp, op->src[0]), lanes, __builtin_ctz(lanes)) == lanes;
  if constexpr (IsPredicate) {
    GiveMask(warp, op->dst, lanes, all ? kFullMask : 0);
  } else {
    GiveWord(warp, op->dst, lanes, all ? lanes : 0);
  }
  return op + 1;
}

template <class T, class F>
const Op* ReduceLanes(Warp& warp, const Op* op) {
  const uint32_t lanes = Participants(warp, op, 1);
  if (lanes == 0) return nullptr;
  const auto* values = At<const T>(warp, op->src[0]);
  T result = values[__builtin_ctz(lanes)];
  for (uint32_t rest = lanes & (lanes - 1); rest != 0; rest &= rest - 1) {
    result = F{}(result, values[__builtin_ctz(rest)]);
  }
  GiveWord(warp, op->dst, lanes, static_cast<uint32_t>(result));
  return op + 1;
}

const Op* ActiveMask(Warp& warp, const Op* op) {
  GiveWord(warp, op->dst, warp.active, warp.active);
  return op + 1;
}
const Op* SyncWarp(Warp& warp, const Op* op) {
  return Participants(warp, op, 3) == 0 ? nullptr : op + 1;
}
/// A clock that advances with the instructions that the warp has executed, in all its turns. Its
/// start value differs from run to run (LaunchState). Counts cycles or nanoseconds.
template <class T, uint64_t LaunchState::* kStart, int kShift = 0>
const Op* Clock(Warp& warp, const Op* op) {
  const uint64_t before = warp.block->warp_work[warp.index];
  const uint64_t start = warp.worker->launch->*kStart;
  const auto now = static_cast<T>((start + (before + warp.warp_instructions) * 4) >> kShift);
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    At<T>(warp, op->dst)[__builtin_ctz(rest)] = now;
  }
  return op + 1;
}

void Add(HandlerTable& table, const char* key, Handler handler, SlotKind dst, SlotKind value) {
  Entry entry;
  entry.full = entry.masked = handler;
  entry.dst = dst;
  entry.src[0] = value;
  if (value != SlotKind::kNone) entry.src[1] = SlotKind::kWord;
  table.Add(key, entry);
}

template <class T>
void AddReductions(HandlerTable& table, const std::string& type) {
  auto add = [&](const char* name, auto f) {
    Add(table, ("redux." + std::string(name) + "." + type).c_str(),
        &ByMask<&ReduceLanes<T, decltype(f)>, 1>, SlotKind::kWord, SlotKind::kWord);
  };
  add("add",
      [](T a, T b) { return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); });
  add("min", [](T a, T b) { return a < b ? a : b; });
  add("max", [](T a, T b) { return a > b ? a : b; });
  add("and", [](T a, T b) { return static_cast<T>(a & b); });
  add("or", [](T a, T b) { return static_cast<T>(a | b); });
  add("xor", [](T a, T b) { return static_cast<T>(a ^ b); });
}

}  // namespace

void RegisterWarp(HandlerTable& table) {
  constexpr SlotKind kP = SlotKind::kPredicate, kW = SlotKind::kWord, kD = SlotKind::kDouble;
  Add(table, "vote.all.pred", &ByMask<&VoteLanes<Vote::kAll>, 1>, kP, kP);
  Add(table, "vote.any.pred", &ByMask<&VoteLanes<Vote::kAny>, 1>, kP, kP);
  Add(table, "vote.uni.pred", &ByMask<&VoteLanes<Vote::kUniform>, 1>, kP, kP);
  Add(table, "vote.ballot.b32", &ByMask<&VoteLanes<Vote::kBallot>, 1>, kW, kP);
  Add(table, "match.any.b32", &ByMask<&MatchAny<uint32_t>, 1>, kW, kW);
  Add(table, "match.any.b64", &ByMask<&MatchAny<uint64_t>, 1>, kW, kD);
  Add(table, "match.all.b32", &ByMask<&MatchAll<uint32_t, false>, 1>, kW, kW);
  Add(table, "match.all.b64", &ByMask<&MatchAll<uint64_t, false>, 1>, kW, kD);
  Add(table, "match.all.pred.b32", &ByMask<&MatchAll<uint32_t, true>, 1>, kP, kW);
  Add(table, "match.all.pred.b64", &ByMask<&MatchAll<uint64_t, true>, 1>, kP, kD);
  AddReductions<uint32_t>(table, "u32");
  AddReductions<int32_t>(table, "s32");
  AddReductions<uint32_t>(table, "b32");
  Add(table, "activemask.b32", &ActiveMask, kW, SlotKind::kNone);
  Add(table, "@syncwarp", &ByMask<&SyncWarp, 3>, SlotKind::kNone, SlotKind::kNone);
  Add(table, "clock.b32", &Clock<uint32_t, &LaunchState::clock>, kW, SlotKind::kNone);
  Add(table, "clock.hi.b32", &Clock<uint32_t, &LaunchState::clock, 32>, kW, SlotKind::kNone);
  Add(table, "clock.b64", &Clock<uint64_t, &LaunchState::clock>, kD, SlotKind::kNone);
  Add(table, "timer.b32", &Clock<uint32_t, &LaunchState::timer>, kW, SlotKind::kNone);
  Add(table, "timer.hi.b32", &Clock<uint32_t, &LaunchState::timer, 32>, kW, SlotKind::kNone);
  Add(table, "timer.b64", &Clock<uint64_t, &LaunchState::timer>, kD, SlotKind::kNone);
}

}  // namespace cupel::emu
