// Calls and returns, and the copies of arguments and results between frames. See calls.h.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "emu/check/report.h"
#include "emu/core/block_state.h"
#include "emu/core/call_stacks.h"
#include "emu/core/handler_table.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/ops/handlers.h"
#include "emu/sync/groups.h"

namespace cupel::emu {
namespace {

constexpr uint64_t kMostSavedValues = kMostStackBytes / 16;  // vectors may hold twice as much

void Account(Warp& warp, const Op* op) {
  AccountBlock(warp, op, static_cast<uint64_t>(__builtin_popcount(warp.active)));
}

CallStacks& StacksOf(Warp& warp) {
  BlockState& block = *warp.block;
  if (!block.calls) block.calls = std::make_unique<CallStacks>(block.warps.size());
  return *block.calls;
}

/// The slots that a call saves: the numbers of 8-byte slots, 4-byte slots and masks, then the
/// offsets.
struct SavedSlots {
  SavedSlots(const Warp& warp, const Op* call) {
    const int32_t* list = ListOf(warp, call);
    doubles = -1 - list[0];
    words = -1 - list[1];
    masks = -1 - list[2];
    slots = list + 3;
  }
  int count() const { return doubles + words + masks; }
  /// Saved values for one call of one lane, including the record.
  uint64_t size() const { return static_cast<uint64_t>(count()) + 4; }
  int doubles, words, masks;
  const int32_t* slots;
};

void Save(const Warp& warp, const SavedSlots& saved, int lane, std::vector<uint64_t>* values) {
  for (int i = 0; i < saved.count(); ++i) {
    const int32_t slot = saved.slots[i];
    if (i < saved.doubles) {
      values->push_back(At<const uint64_t>(warp, slot)[lane]);
    } else if (i < saved.doubles + saved.words) {
      values->push_back(At<const uint32_t>(warp, slot)[lane]);
    } else {
      values->push_back((MaskAt(warp, slot) >> lane) & 1u);
    }
  }
}
void Restore(const Warp& warp, const SavedSlots& saved, int lane, const uint64_t* values) {
  for (int i = 0; i < saved.count(); ++i) {
    const int32_t slot = saved.slots[i];
    if (i < saved.doubles) {
      At<uint64_t>(warp, slot)[lane] = values[i];
    } else if (i < saved.doubles + saved.words) {
      At<uint32_t>(warp, slot)[lane] = static_cast<uint32_t>(values[i]);
    } else {
      uint32_t& mask = MaskAt(warp, slot);
      mask = (mask & ~(1u << lane)) | static_cast<uint32_t>(values[i]) << lane;
    }
  }
}

/// The first op of the lane's function, or null if there is no function at the address.
const Op* Callee(Warp& warp, const Op* op, int lane) {
  if (op->src[1] < 0) return warp.code + op->target;
  const auto& functions = warp.worker->launch->code->functions;
  const auto found = functions.find(At<const uint64_t>(warp, op->src[1])[lane]);
  return found == functions.end() ? nullptr : warp.code + found->second;
}

/// src[0]: stack pointer; src[1]: address or -1; target: for direct calls; aux: bytes of the
/// caller's frame; list: SavedSlots.
const Op* Call(Warp& warp, const Op* op) {
  const Op* target = Callee(warp, op, __builtin_ctz(warp.active));
  if (target == nullptr) {
    return Fault(warp, op, "illegal_address",
                 "The kernel calls a pointer that is not the address of a function.");
  }
  uint32_t together = 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (Callee(warp, op, lane) == target) together |= 1u << lane;
  }
  // One function per turn: the other lanes return to this op.
  const SavedSlots saved(warp, op);
  CallStacks& stacks = StacksOf(warp);
  stacks.saved_values += saved.size() * static_cast<uint64_t>(__builtin_popcount(together));
  auto* pointer = At<uint32_t>(warp, op->src[0]);
  for (uint32_t rest = together; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (stacks.saved_values > kMostSavedValues ||
        uint64_t{pointer[lane]} + op->aux + kFrameAlign > warp.local_bytes) {
      return Fault(warp, op, "stack_overflow",
                   "Calls are nested more deeply than a thread's stack allows.");
    }
    CallStacks::Lane& stack = stacks.LaneOf(warp, lane);
    stack.records.push_back({op, pointer[lane], stack.values.size()});
    Save(warp, saved, lane, &stack.values);
    pointer[lane] += op->aux;
  }
  if (together != warp.active) return Diverge(warp, target, together, op);
  Account(warp, op);
  if (warp.slice < 0) return EndSlice(warp, target);
  warp.pc = target;
  warp.stop = Stop::kContinue;
  return nullptr;
}

/// src[0]: stack pointer.
const Op* Return(Warp& warp, const Op* op) {
  CallStacks& stacks = StacksOf(warp);
  const Op* call = nullptr;
  uint32_t together = 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const auto& records = stacks.LaneOf(warp, lane).records;
    if (records.empty()) {
      return Fault(warp, op, "illegal_instruction",
                   "A function returns without having been called.");
    }
    if (call == nullptr) call = records.back().call;
    if (records.back().call == call) together |= 1u << lane;
  }
  const SavedSlots saved(warp, call);
  stacks.saved_values -= saved.size() * static_cast<uint64_t>(__builtin_popcount(together));
  for (uint32_t rest = together; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    CallStacks::Lane& stack = stacks.LaneOf(warp, lane);
    const CallStacks::Record record = stack.records.back();
    stack.records.pop_back();
    Restore(warp, saved, lane, stack.values.data() + record.saved);
    stack.values.resize(record.saved);
    At<uint32_t>(warp, op->src[0])[lane] = record.stack_pointer;
  }
  if (together != warp.active) return Diverge(warp, call + 1, together, op);
  Account(warp, op);
  warp.pc = call + 1;
  warp.stop = Stop::kContinue;
  return nullptr;
}

/// Copies `flops` bytes of local memory from stack pointer + imm to stack pointer + target.
const Op* CopyLocal(Warp& warp, const Op* op) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint64_t base = At<const uint32_t>(warp, op->src[0])[lane];
    const uint64_t from = base + static_cast<uint64_t>(op->imm);
    const uint64_t to = base + static_cast<uint64_t>(int64_t{op->target});
    if (std::max(from, to) + op->flops > warp.local_bytes) {
      return Fault(warp, op, "stack_overflow",
                   "Calls are nested more deeply than a thread's stack allows.");
    }
    for (uint64_t i = 0; i < op->flops; ++i) {
      *LocalByte(warp, lane, to + i) = *LocalByte(warp, lane, from + i);
    }
  }
  return op + 1;
}

}  // namespace

void RegisterCalls(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@call", &Call);
  add("@return", &Return);
  add("@copylocal", &CopyLocal);
}

}  // namespace cupel::emu
