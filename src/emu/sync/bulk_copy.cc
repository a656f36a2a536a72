// Tested by mbarrier_test.cc and exec/hopper_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/bulk_copy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"
#include "emu/check/global_race.h"
#include "emu/check/race_checks.h"
#include "emu/check/shared_race.h"
#include "emu/check/sync_notes.h"
#include "emu/core/launch_state.h"
#include "emu/core/memory.h"
#include "emu/core/worker.h"

namespace cupel::emu {
namespace {

template <class T>
T CombinedIntegers(Reduction reduction, T old, T value) {
  using U = std::make_unsigned_t<T>;
  switch (reduction) {
    case Reduction::kAdd:
      return static_cast<T>(static_cast<U>(old) + static_cast<U>(value));
    case Reduction::kMin:
      return std::min(old, value);
    case Reduction::kMax:
      return std::max(old, value);
    case Reduction::kInc:
      return old >= value ? T{0} : static_cast<T>(old + 1);
    case Reduction::kDec:
      return old == 0 || old > value ? value : static_cast<T>(old - 1);
    case Reduction::kAnd:
      return static_cast<T>(old & value);
    case Reduction::kOr:
      return static_cast<T>(old | value);
    default:
      return static_cast<T>(old ^ value);
  }
}

/// As PTX defines min and max: a number if one is, and -0 < +0.
template <class T>
T Lesser(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}

template <class T>
T Combined(Reduction reduction, T old, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (reduction == Reduction::kMin) return Lesser(old, value);
    if (reduction == Reduction::kMax) return -Lesser(-old, -value);
    return old + value;
  } else {
    return CombinedIntegers(reduction, old, value);
  }
}

template <class T>
void ReduceElements(Reduction reduction, std::byte* to, const std::byte* from, uint32_t bytes) {
  for (uint32_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
    T old, value;
    std::memcpy(&old, to + at, sizeof old);
    std::memcpy(&value, from + at, sizeof value);
    old = Combined(reduction, old, value);
    std::memcpy(to + at, &old, sizeof old);
  }
}

/// 16-bit floats: the sum is rounded once.
template <float (*Load)(uint16_t), uint16_t (*Store)(float)>
void ReduceHalves(Reduction reduction, std::byte* to, const std::byte* from, uint32_t bytes) {
  for (uint32_t at = 0; at + 2 <= bytes; at += 2) {
    uint16_t old, value;
    std::memcpy(&old, to + at, 2);
    std::memcpy(&value, from + at, 2);
    const float result = Combined(reduction, Load(old), Load(value));
    old = std::isnan(result) ? uint16_t{0x7fff} : Store(result);
    std::memcpy(to + at, &old, 2);
  }
}

void Reduce(const BulkCopy& copy, std::byte* to, const std::byte* from, uint32_t bytes) {
  const Reduction reduction = copy.reduction;
  switch (copy.type) {
    case ReductionType::kU32:
      return ReduceElements<uint32_t>(reduction, to, from, bytes);
    case ReductionType::kS32:
      return ReduceElements<int32_t>(reduction, to, from, bytes);
    case ReductionType::kU64:
      return ReduceElements<uint64_t>(reduction, to, from, bytes);
    case ReductionType::kS64:
      return ReduceElements<int64_t>(reduction, to, from, bytes);
    case ReductionType::kF16:
      return ReduceHalves<HalfToFloat, FloatToHalf>(reduction, to, from, bytes);
    case ReductionType::kBF16:
      return ReduceHalves<BFloat16ToFloat, FloatToBFloat16>(reduction, to, from, bytes);
    case ReductionType::kF32:
      return ReduceElements<float>(reduction, to, from, bytes);
    case ReductionType::kF64:
      return ReduceElements<double>(reduction, to, from, bytes);
  }
}

/// Copies float32 elements as tensor maps for TF32 ask.
void CopyRounded(std::byte* to, const std::byte* from, uint32_t bytes) {
  for (uint32_t at = 0; at + 4 <= bytes; at += 4) {
    uint32_t bits = 0;
    std::memcpy(&bits, from + at, 4);
    const bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
    if (is_finite) bits += 0xfffu + (bits >> 13 & 1u);
    bits &= ~0x1fffu;
    std::memcpy(to + at, &bits, 4);
  }
}

void Fill(std::byte* to, uint64_t pattern, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += 8) {
    std::memcpy(to + at, &pattern, std::min<uint32_t>(8, bytes - at));
  }
}

uint32_t OffsetIn(const BlockState& block, const std::byte* host) {
  return static_cast<uint32_t>(host - block.memory);
}

/// True for memory of the copy's own block.
bool IsWatched(const BulkCopy& copy, const BlockState* block) {
  return block != nullptr && block == copy.warp->block && block->checker != nullptr;
}

bool CheckGlobalRun(Warp& warp, const BulkCopy& copy, const std::byte* host, uint32_t bytes,
                    AccessKind kind) {
  if (!warp.watching) return true;
  uint32_t zero[kLanes] = {};
  const uint64_t address = reinterpret_cast<uint64_t>(host) - warp.bias;
  return CheckGlobal(warp, copy.op, kind, 1u << copy.lane, bytes, address, zero);
}

}  // namespace

uint64_t BytesOf(const BulkCopy& copy) {
  uint64_t bytes = 0;
  for (const CopyRun& run : copy.runs) bytes += run.bytes;
  return bytes;
}

bool CheckIssue(Warp& warp, BulkCopy& copy) {
  if (!warp.checking) return true;
  BlockClocks& clocks = warp.block->checker->clocks();
  uint32_t offsets[kLanes] = {};
  const auto lane = static_cast<size_t>(copy.lane);
  const uint32_t active = 1u << copy.lane;
  AccessKind read;
  read.proxied = true;
  for (const CopyRun& run : copy.runs) {
    if (run.from == nullptr) continue;
    if (copy.source == nullptr) {
      if (!CheckGlobalRun(warp, copy, run.from, run.bytes, {})) return false;
    } else if (IsWatched(copy, copy.source)) {
      offsets[lane] = OffsetIn(*copy.source, run.from);
      if (!CheckShared(warp, copy.op, read, active, run.bytes, offsets)) return false;
    }
  }
  const bool is_remote = copy.target != nullptr && copy.target != warp.block;
  AccessKind write;
  write.store = true;
  write.atomic = copy.reduction != Reduction::kNone;
  if (copy.target == nullptr) {
    for (const CopyRun& run : copy.runs) {
      if (!CheckGlobalRun(warp, copy, run.to, run.bytes, write)) return false;
    }
  } else {
    for (const CopyRun& run : copy.runs) {
      offsets[lane] = OffsetIn(*copy.target, run.to);
      if (is_remote ? !CheckSibling(warp, copy.op, write, active, run.bytes, offsets, *copy.target)
                    : !CheckShared(warp, copy.op, write, active, run.bytes, offsets)) {
        return false;
      }
    }
  }
  copy.clock = clocks.of(warp.index).now;
  clocks.Sync(warp.index, 0);  // later events of the warp have another time
  copy.seen = clocks.of(warp.index).seen;
  copy.seen[warp.index] = copy.clock + 1;
  // The other block's threads that wait for the copy are ordered after what came before it.
  if (is_remote) NoteRelease(warp);
  return true;
}

void MakePending(const BulkCopy& copy) {
  if (copy.target == nullptr || copy.reduction != Reduction::kNone) return;
  const uint64_t poison = copy.warp->worker->launch->poison * 0x1'0000'0001u;
  for (const CopyRun& run : copy.runs) {
    Fill(run.to, poison, run.bytes);
    if (SharedChecker* checker = copy.target->checker.get(); checker != nullptr) {
      const uint32_t offset = OffsetIn(*copy.target, run.to);
      // CheckIssue has not compared the issue with the reads of another block.
      if (!IsWatched(copy, copy.target)) checker->ForgetReads(offset, run.bytes);
      checker->MakePending(*copy.warp, copy.op, static_cast<uint32_t>(copy.lane), offset,
                           run.bytes);
    }
  }
}

uint64_t Perform(Warp& waiter, BulkCopy& copy, uint64_t most) {
  uint64_t done = 0;
  const uint32_t thread = copy.warp->index * kLanes + static_cast<uint32_t>(copy.lane);
  while (!copy.IsDone() && done < most) {
    CopyRun& run = copy.runs[copy.next];
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(run.bytes, most - done));
    uint32_t offsets[kLanes] = {};
    if (IsWatched(copy, copy.source) && run.from != nullptr) {
      offsets[copy.lane] = OffsetIn(*copy.source, run.from);
      if (!copy.source->checker->CheckUnchanged(*copy.warp, copy.op, 1u << copy.lane, bytes,
                                                offsets, copy.seen.data())) {
        waiter.stop = Stop::kFault;
      }
    }
    if (copy.reduction != Reduction::kNone) {
      const auto* value = reinterpret_cast<const std::byte*>(&copy.fill);
      Reduce(copy, run.to, run.from == nullptr ? value : run.from, bytes);
    } else if (run.from == nullptr) {
      Fill(run.to, copy.fill, bytes);
    } else if (copy.rounds_to_tf32) {
      CopyRounded(run.to, run.from, bytes);
    } else {
      std::memmove(run.to, run.from, bytes);
    }
    if (copy.target != nullptr && copy.target->checker != nullptr &&
        copy.reduction == Reduction::kNone) {
      // The clocks of another block's warps say nothing about this one.
      const uint32_t clock = copy.target == copy.warp->block ? copy.clock : 0;
      if (!copy.target->checker->Land(waiter, copy.op, thread, clock,
                                      OffsetIn(*copy.target, run.to), bytes)) {
        waiter.stop = Stop::kFault;
      }
    }
    done += bytes;
    run.bytes -= bytes;
    run.to += bytes;
    if (run.from != nullptr) run.from += bytes;
    if (run.bytes == 0) ++copy.next;
  }
  return done;
}

}  // namespace cupel::emu
