// Shadows through calls that are not inlined: calls save and returns restore the shadows of the
// caller's registers. Arguments and results are copied on the stack with their shadows.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "emu/core/block_state.h"
#include "emu/core/call_stacks.h"
#include "emu/core/handler_table.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/place.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {

/// The saved shadows of one warp, by lane.
struct CallShadows {
  struct Saved {
    int32_t slot = 0;
    uint8_t granules = 0;  // 0: a predicate in doubt
    std::array<Cell, 4> cells{};
  };
  struct Lane {
    std::vector<Saved> saved;
    std::vector<size_t> frames;  // start of each call's values
  };
  std::array<Lane, kLanes> lanes;
};

namespace {

/// The limit on what a lane's calls may save. Deeper calls are not followed.
constexpr size_t kMostSaved = 1024;

/// Calls f(slot, granules) for each slot that `call` saves; 0 granules mean a predicate.
template <class F>
void ForSavedSlots(const Warp& warp, const Op* call, F f) {
  const int32_t* list = ListOf(warp, call);
  const int32_t* slot = list + 3;
  constexpr int kGranules[] = {4, 2, 0};
  for (int kind = 0; kind < 3; ++kind) {
    for (int32_t i = -1 - list[kind]; i > 0; --i) f(*slot++, kGranules[kind]);
  }
}

size_t DepthOf(Warp& warp, int lane) {
  CallStacks* stacks = warp.block->calls.get();
  return stacks == nullptr ? 0 : stacks->LaneOf(warp, lane).records.size();
}

void Save(WarpShadow& ws, const Warp& warp, const Op* call, int lane) {
  if (!ws.calls) ws.calls = std::make_shared<CallShadows>();
  CallShadows::Lane& stack = ws.calls->lanes[static_cast<size_t>(lane)];
  stack.frames.push_back(stack.saved.size());
  ForSavedSlots(warp, call, [&](int32_t slot, int granules) {
    CallShadows::Saved saved{slot, static_cast<uint8_t>(granules), {}};
    if (granules == 0) {
      if (((ws.taints[slot / 4] >> lane) & 1u) == 0) return;
    } else {
      const SlotHeader& header = ws.headers[slot / 128];
      if ((((header.live | header.raw) >> lane) & 1u) == 0) return;
      Cell cells[4] = {};
      ReadCells(ws, warp, slot, granules == 4, lane, cells);
      std::copy(cells, cells + 4, saved.cells.begin());
    }
    if (stack.saved.size() >= kMostSaved) {
      ResetLanes(ws, 1u << lane);
      return;
    }
    stack.saved.push_back(saved);
  });
}

void Restore(WarpShadow& ws, const Warp& warp, const Op* call, int lane) {
  const uint32_t bit = 1u << lane;
  ForSavedSlots(warp, call, [&](int32_t slot, int granules) {
    if (granules == 0) {
      ws.taints[slot / 4] &= ~bit;
    } else {
      SlotHeader& header = ws.headers[slot / 128];
      header.live &= ~bit;
      header.raw &= ~bit;
    }
  });
  if (!ws.calls) return;
  CallShadows::Lane& stack = ws.calls->lanes[static_cast<size_t>(lane)];
  if (stack.frames.empty()) return;
  for (size_t i = stack.frames.back(); i < stack.saved.size(); ++i) {
    const CallShadows::Saved& saved = stack.saved[i];
    if (saved.granules == 0) {
      ws.taints[saved.slot / 4] |= bit;
      continue;
    }
    for (int g = 0; g < saved.granules; ++g) {
      Plane& plane = ws.planes[saved.slot / 64 + g];
      const Cell& cell = saved.cells[static_cast<size_t>(g)];
      plane.exact[lane] = cell.exact;
      plane.bits[lane] = cell.bits;
      plane.state[lane] = cell.state;
    }
    ws.headers[saved.slot / 128].live |= bit;
  }
  stack.saved.resize(stack.frames.back());
  stack.frames.pop_back();
}

/// Lanes that call another function return to this op later.
template <bool IsMasked>
const Op* CallThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const uint32_t active = warp.active;
  size_t depth[kLanes] = {};
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    depth[__builtin_ctz(rest)] = DepthOf(warp, __builtin_ctz(rest));
  }
  if (op->src[1] >= 0 && IsLive(ws, op->src[1])) {
    uint32_t flags[kLanes] = {};
    DoubtLanes(ws, GatherFlags(ws, warp, op->src[1], SlotKind::kDouble, flags) & active);
  }
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    if (DepthOf(warp, i) > depth[i]) Save(ws, warp, op, i);
  }
  return next;
}

template <bool IsMasked>
const Op* ReturnThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const uint32_t active = warp.active;
  size_t depth[kLanes] = {};
  const Op* call[kLanes] = {};
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    depth[i] = DepthOf(warp, i);
    if (depth[i] > 0) call[i] = warp.block->calls->LaneOf(warp, i).records.back().call;
  }
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    if (DepthOf(warp, i) < depth[i]) Restore(ws, warp, call[i], i);
  }
  return next;
}

template <bool IsMasked>
const Op* CopyLocalThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr || ws.local == nullptr) return next;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const uint64_t base = At<const uint32_t>(warp, op->src[0])[i];
    const uint64_t from = base + static_cast<uint64_t>(op->imm);
    const uint64_t to = base + static_cast<uint64_t>(int64_t{op->target});
    for (uint64_t at = 0; at < op->flops; at += 2) {
      Cell* cell = CellForStore(ws, MemorySpace::kLocal, i, (to + at) & ~uint64_t{1});
      // Parts of a granule are not floats. Arguments begin at multiples of their size.
      const bool odd = ((from | to) & 1u) != 0;
      *cell = odd ? Cell{} : *CellForStore(ws, MemorySpace::kLocal, i, from + at);
    }
  }
  return next;
}

}  // namespace

Thunks CallThunks() { return {&CallThunk<false>, &CallThunk<true>}; }
Thunks ReturnThunks() { return {&ReturnThunk<false>, &ReturnThunk<true>}; }
Thunks CopyLocalThunks() { return {&CopyLocalThunk<false>, &CopyLocalThunk<true>}; }

}  // namespace cupel::emu
