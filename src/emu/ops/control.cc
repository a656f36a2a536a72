// Branches, exits, barriers, and the micro-ops without an instruction of their own. The terminator
// of a basic block accounts for the whole block, so other handlers do not count.
//
// A label consists of a `fall` op, which accounts for the block that falls into it, and a `merge`
// op. Jumps go to the merge op, where diverged lanes meet. It is skipped if all lanes are present.
// SPDX-License-Identifier: Apache-2.0
#include <xmmintrin.h>

#include "emu/check/report.h"
#include "emu/check/sync_notes.h"
#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/launch_state.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/ops/handlers.h"
#include "emu/sync/barriers.h"
#include "emu/sync/cluster_barrier.h"
#include "emu/sync/groups.h"

namespace cupel::emu {
namespace {

int Count(uint32_t mask) { return __builtin_popcount(mask); }

template <bool IsMasked>
inline void Account(Warp& warp, const Op* op) {
  AccountBlock(warp, op, IsMasked ? static_cast<uint64_t>(Count(warp.active)) : kLanes);
}

/// All active lanes go to the op's target.
template <bool IsMasked>
inline const Op* GoTo(Warp& warp, const Op* op) {
  const Op* target = warp.code + op->target;
  if (target <= op) {
    if (warp.slice < 0) return EndSlice(warp, target);
    if (IsMasked && warp.others > 0) return SpinRotate(warp, target);
  }
  return IsMasked ? target : target + 1;
}

template <bool IsMasked>
const Op* Jump(Warp& warp, const Op* op) {
  Account<IsMasked>(warp, op);
  return GoTo<IsMasked>(warp, op);
}

/// src[0] is the predicate; aux is all ones when it is negated.
template <bool IsMasked>
const Op* Branch(Warp& warp, const Op* op) {
  Account<IsMasked>(warp, op);
  const uint32_t active = IsMasked ? warp.active : kFullMask;
  const uint32_t taken = (MaskAt(warp, op->src[0]) ^ op->aux) & active;
  if (taken == active) return GoTo<IsMasked>(warp, op);
  if (taken == 0) return op + 1;
  return Diverge(warp, warp.code + op->target, taken, op + 1);
}

const Op* MergeFull(Warp&, const Op* op) { return op + 1; }
const Op* MergeMasked(Warp& warp, const Op* op) {
  if (warp.min_other != nullptr && warp.min_other <= op) return MergeOrSwitch(warp, op);
  return op + 1;
}
const Op* FallFull(Warp& warp, const Op* op) {
  Account<false>(warp, op);
  return op + 2;
}
const Op* FallMasked(Warp& warp, const Op* op) {
  Account<true>(warp, op);
  return op + 1;
}

template <bool IsMasked>
const Op* Exit(Warp& warp, const Op* op) {
  Account<IsMasked>(warp, op);
  return EndLanes(warp, IsMasked ? warp.active : kFullMask, op + 1);
}
template <bool IsMasked>
const Op* ExitIf(Warp& warp, const Op* op) {
  Account<IsMasked>(warp, op);
  const uint32_t active = IsMasked ? warp.active : kFullMask;
  const uint32_t leaving = (MaskAt(warp, op->src[0]) ^ op->aux) & active;
  if (leaving == 0) return op + 1;
  return EndLanes(warp, leaving, op + 1);
}

/// Runs the next `count` ops only for lanes whose predicate is true.
const Op* Guard(Warp& warp, const Op* op) {
  const uint32_t saved = warp.active;
  const uint32_t lanes = (MaskAt(warp, op->src[0]) ^ op->aux) & saved;
  const Op* end = op + 1 + op->count;
  if (lanes == 0) return end;
  warp.active = lanes;
  const Op* next = op + 1;
  while (next != end && next != nullptr) next = next->masked(warp, next);
  warp.active = saved;
  return next;
}

/// brx.idx: src[0] is the index; imm is the first of `aux` consecutive targets in the code's table.
const Op* BranchIndexed(Warp& warp, const Op* op) {
  Account<true>(warp, op);
  const auto* index = At<const uint32_t>(warp, op->src[0]);
  const uint32_t first = index[__builtin_ctz(warp.active)];
  if (first >= op->aux) {
    return Fault(warp, op, "illegal_instruction",
                 "The index of an indexed branch is outside its table of targets.");
  }
  uint32_t same = 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    same |= uint32_t{index[i] == first} << i;
  }
  const Op* target =
      warp.code + warp.worker->launch->code->branch_targets[static_cast<size_t>(op->imm) + first];
  // One target per turn: lanes with another index return to this op.
  if (same != warp.active) return Diverge(warp, target, same, op);
  if (warp.slice < 0) return EndSlice(warp, target);
  warp.pc = target;
  warp.stop = Stop::kContinue;
  return nullptr;
}

const Op* SetFloatMode(Warp&, const Op* op) {
  _mm_setcsr(static_cast<unsigned>(op->imm));
  return op + 1;
}

/// src[0]: barrier; src[1]: thread count or -1; src[2]: predicate of bar.red or -1.
const Op* Barrier(Warp& warp, const Op* op) {
  const int first = __builtin_ctz(warp.active);
  const uint32_t id = At<const uint32_t>(warp, op->src[0])[first];
  const uint32_t expected = op->src[1] < 0 ? 0 : At<const uint32_t>(warp, op->src[1])[first];
  if (id >= 16 || expected % kLanes != 0) {
    return Fault(warp, op, "illegal_instruction",
                 "A barrier number must be 0 to 15, and its thread count a multiple of 32.");
  }
  const auto lanes = static_cast<uint32_t>(Count(warp.active));
  if (op->src[2] >= 0) {
    const uint32_t values = MaskAt(warp, op->src[2]) ^ static_cast<uint32_t>(op->imm);
    ReduceAtBarrier(warp, id, values & warp.active, warp.active);
  }
  if ((op->aux & kBarrierArriveOnly) != 0) {
    ArriveAtBarrier(warp, op, id, lanes, expected);
    return warp.stop == Stop::kFault ? nullptr : op + 1;
  }
  const Op* next = WaitAtBarrier(warp, op, id);
  ArriveAtBarrier(warp, op, id, lanes, expected);  // on an error, warp.stop is set
  return next;
}

/// Runs after a load that may poll what another block writes. In a cooperative launch the other
/// blocks get a turn, so that blocks leave a grid barrier together, as they do on a device. In
/// other orders they get one now and then: what was loaded may be outdated when the next store
/// comes.
const Op* Yield(Warp& warp, const Op* op) {
  if (!YieldTurn(warp)) return op + 1;
  return EndSlice(warp, op + 1);
}

const Op* Fence(Warp& warp, const Op* op) {
  if (warp.checking) NoteFence(warp, op->aux != 0);
  return op + 1;
}

const Op* FenceProxy(Warp& warp, const Op* op) {
  if (warp.checking) NoteProxyFence(warp);
  return op + 1;
}

const Op* Trap(Warp& warp, const Op* op) {
  return Fault(warp, op, "trap", "The kernel executed a trap (a failed assertion, or __trap).");
}
/// src[0]: mask of the lanes that have written the register that the next op reads. src[1]: of the
/// lanes that read it; -1: all.
const Op* CheckDefined(Warp& warp, const Op* op) {
  uint32_t missing = warp.active & ~MaskAt(warp, op->src[0]);
  if (op->src[1] >= 0) missing &= MaskAt(warp, op->src[1]);
  if (!warp.checking || missing == 0) return op + 1;
  // Triton's language has no variables without a value; its compiler leaves such registers unused.
  if (warp.worker->launch->code->is_of_triton) return op + 1;
  Warn(warp, op, "uninitialized_register",
       "A variable is used here before it has a value on this path.", __builtin_ctz(missing));
  return op + 1;
}
const Op* Define(Warp& warp, const Op* op) {
  MaskAt(warp, op->dst) |= warp.active;
  return op + 1;
}
void Add(HandlerTable& table, const char* key, Handler full, Handler masked) {
  Entry entry;
  entry.full = full;
  entry.masked = masked;
  table.Add(key, entry);
}

}  // namespace

void RegisterControl(HandlerTable& table) {
  Add(table, "@jump", &Jump<false>, &Jump<true>);
  Add(table, "@branch", &Branch<false>, &Branch<true>);
  Add(table, "@merge", &MergeFull, &MergeMasked);
  Add(table, "@fall", &FallFull, &FallMasked);
  Add(table, "@exit", &Exit<false>, &Exit<true>);
  Add(table, "@exitif", &ExitIf<false>, &ExitIf<true>);
  Add(table, "@guard", &Guard, &Guard);
  Add(table, "@brx", &BranchIndexed, &BranchIndexed);
  Add(table, "@mode", &SetFloatMode, &SetFloatMode);
  Add(table, "@barrier", &Barrier, &Barrier);
  Add(table, "@cluster.arrive", &ArriveAtCluster, &ArriveAtCluster);
  Add(table, "@cluster.wait", &WaitForCluster, &WaitForCluster);
  Add(table, "@yield", &Yield, &Yield);
  Add(table, "@fence", &Fence, &Fence);
  Add(table, "@fence.proxy", &FenceProxy, &FenceProxy);
  Add(table, "@checkdefined", &CheckDefined, &CheckDefined);
  Add(table, "@define", &Define, &Define);
  Add(table, "@trap", &Trap, &Trap);
}

}  // namespace cupel::emu
