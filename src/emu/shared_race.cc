// SPDX-License-Identifier: Apache-2.0
#include "emu/shared_race.h"

#include <fmt/format.h>

#include <algorithm>

#include "emu/block.h"
#include "emu/decode.h"

namespace cupel::emu {

SharedChecker::SharedChecker(uint64_t bytes, uint32_t warps)
    : words_((bytes + 3) / 4), epoch_(warps), warp_epoch_(warps), lane_epoch_(warps * kLanes) {}

void SharedChecker::Reset() {
  std::fill(words_.begin(), words_.end(), Word{});
  std::fill(epoch_.begin(), epoch_.end(), 1);
  std::fill(warp_epoch_.begin(), warp_epoch_.end(), 1);
  std::fill(lane_epoch_.begin(), lane_epoch_.end(), 1);
}

/// True when `before` is ordered before an access that `lane` of `warp` makes now.
bool SharedChecker::Ordered(const Access& before, const Warp& warp, int lane) const {
  const auto thread = static_cast<int32_t>(warp.index) * kLanes + lane;
  if (before.thread == kNobody || before.thread == thread) return true;
  const uint32_t other_warp = static_cast<uint32_t>(before.thread) / kLanes;
  if (epoch_[warp.index] > before.epoch) return true;
  return other_warp == warp.index && lane_epoch_[static_cast<size_t>(thread)] > before.warp_epoch;
}

void SharedChecker::ReportRace(Warp& warp, const Op* op, int lane, uint32_t offset,
                               const Access& other, bool store, bool other_store) const {
  const Code& code = *warp.worker->launch->code;
  const SourceLine line = LineOf(*code.module, code.sources[other.source].location);
  Fault(warp, op, "shared_race",
        fmt::format("Thread {} {} byte {} of shared memory that thread {} {} at line {} without a "
                    "barrier between them.",
                    warp.index * kLanes + static_cast<uint32_t>(lane), store ? "writes" : "reads",
                    offset, other.thread, other_store ? "wrote" : "read", line.line));
}

bool SharedChecker::Check(Warp& warp, const Op* op, bool store, bool atomic, uint32_t active,
                          uint32_t bytes, const uint32_t* offsets) {
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const auto thread = static_cast<int32_t>(warp.index) * kLanes + lane;
    const uint32_t end = offsets[lane] + bytes;
    for (uint32_t at = offsets[lane]; at < end; at = (at / 4 + 1) * 4) {
      Word& word = words_[at / 4];
      const uint32_t last = std::min(end, (at / 4 + 1) * 4);
      const auto touched = static_cast<uint8_t>(((1u << (last - at)) - 1) << (at % 4));
      const Access access{epoch_[warp.index], lane_epoch_[static_cast<size_t>(thread)], thread,
                          op->source, atomic};
      const bool both_atomic = atomic && word.write.atomic;
      if ((!store || atomic) && (word.written & touched) != touched) {
        Fault(warp, op, "uninitialized_shared",
              fmt::format("Thread {} reads byte {} of shared memory, which nothing has written.",
                          thread, at));
        return false;
      }
      // Bytes of one word that different threads write do not conflict.
      const bool whole = touched == 15u;
      if (whole && !both_atomic && !Ordered(word.write, warp, lane)) {
        // Lanes of one instruction that store the same word: one of them wins, by PTX's rules.
        const bool same_instruction = store && word.write.source == op->source &&
                                      word.write.thread / kLanes == thread / kLanes;
        if (!same_instruction) {
          ReportRace(warp, op, lane, at, word.write, store, true);
          return false;
        }
      }
      if (store && whole && !(atomic && word.read.atomic)) {
        if (!Ordered(word.read, warp, lane) && !(atomic && word.read.atomic)) {
          ReportRace(warp, op, lane, at, word.read, true, false);
          return false;
        }
      }
      if (store) {
        word.write = access;
        word.written |= touched;
        if (!atomic) word.read = Access{};
      } else if (word.read.thread == kNobody || Ordered(word.read, warp, lane) ||
                 word.read.thread / kLanes == thread / kLanes) {
        word.read = access;
      }
    }
  }
  return true;
}

void SharedChecker::NoteWarpSync(const Warp& warp, uint32_t mask) {
  const uint32_t now = ++warp_epoch_[warp.index];
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    lane_epoch_[warp.index * kLanes + static_cast<size_t>(__builtin_ctz(rest))] = now;
  }
}

void SharedChecker::NoteArrival(const Warp&, uint32_t) {}

void SharedChecker::NoteBarrier(const BlockState&, uint32_t) {
  // All warps share one clock: a barrier of some of them orders too much rather than too little, so
  // that no honest kernel is accused.
  const uint32_t now = *std::max_element(epoch_.begin(), epoch_.end()) + 1;
  std::fill(epoch_.begin(), epoch_.end(), now);
}

bool CheckShared(Warp& warp, const Op* op, bool store, bool atomic, uint32_t active, uint32_t bytes,
                 const uint32_t* offsets) {
  return warp.block->checker->Check(warp, op, store, atomic, active, bytes, offsets);
}
void NoteWarpSync(Warp& warp, uint32_t mask) { warp.block->checker->NoteWarpSync(warp, mask); }

}  // namespace cupel::emu
