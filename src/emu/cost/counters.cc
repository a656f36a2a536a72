// Counts the cost of memory accesses: 32-byte sectors of global memory, wavefronts of shared
// memory, and atomics whose lanes must take turns.
// SPDX-License-Identifier: Apache-2.0
#include "emu/cost/counters.h"

#include <algorithm>

#include "emu/core/block_state.h"
#include "emu/core/code.h"
#include "emu/core/lane_addresses.h"
#include "emu/core/near_cache.h"
#include "emu/core/op.h"
#include "emu/core/op_profile.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/cost/profile.h"

namespace cupel::emu {
namespace {

constexpr size_t kMostLines = 1 << 16;

OpAccesses& AccessesOf(Warp& warp, const Op* op) {
  return warp.worker->profile->accesses[static_cast<size_t>(op - warp.code)];
}

/// The distance between the addresses of neighbouring lanes, if most of them agree on it.
int64_t StrideOf(uint32_t active, const uint32_t* offsets) {
  const uint32_t neighbours = active & (active >> 1);  // lanes whose next lane is active too
  if (neighbours == 0) return (active & (active - 1)) == 0 ? 0 : records::kIrregular;
  const auto distance = [&](int lane) {
    return static_cast<int64_t>(offsets[lane + 1]) - static_cast<int64_t>(offsets[lane]);
  };
  StrideVote vote;
  for (uint32_t rest = neighbours; rest != 0; rest &= rest - 1) {
    vote.Cast(distance(__builtin_ctz(rest)), 0);
  }
  int agree = 0;
  for (uint32_t rest = neighbours; rest != 0; rest &= rest - 1) {
    agree += distance(__builtin_ctz(rest)) == vote.stride;
  }
  return 3 * agree >= 2 * __builtin_popcount(neighbours) ? vote.stride : records::kIrregular;
}

/// The sectors that a request accesses, with a bit for each byte used.
class Sectors {
 public:
  void Touch(uint32_t offset, uint32_t bytes) {
    // 64 bits, because the last sector may end at 2^32.
    for (uint64_t at = offset, end = at + bytes; at < end;) {
      const uint64_t sector = at / kSectorBytes;
      const auto here = static_cast<uint32_t>(std::min(end, (sector + 1) * kSectorBytes) - at);
      const uint32_t bits = here == 32 ? ~0u : ((1u << here) - 1) << (at % kSectorBytes);
      Find(static_cast<uint32_t>(sector)) |= bits;
      at += here;
    }
  }
  uint32_t count() const { return count_; }
  uint32_t lines() const {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      const auto same_line = [&](uint32_t sector) { return sector / 4 == sector_[i] / 4; };
      sum += std::none_of(sector_, sector_ + i, same_line) ? 1 : 0;
    }
    return sum;
  }
  template <class F>
  uint64_t CountIf(const F& f) const {
    return static_cast<uint64_t>(std::count_if(sector_, sector_ + count_, f));
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count_; ++i)
      sum += static_cast<uint32_t>(__builtin_popcount(used_[i]));
    return sum;
  }

 private:
  uint32_t& Find(uint32_t sector) {
    uint32_t i = count_;
    while (i > 0 && sector_[i - 1] != sector) --i;
    if (i > 0) return used_[i - 1];
    sector_[count_] = sector;
    used_[count_] = 0;
    return used_[count_++];
  }

  static constexpr uint32_t kMost = kLanes * 2;  // 32 bytes per lane, across a boundary
  uint32_t sector_[kMost];
  uint32_t used_[kMost];
  uint32_t count_ = 0;
};

/// A wavefront serves each of the 32 banks once. Lanes that access the same word share it. For
/// accesses of 8 and 16 bytes the warp is split into halves and quarters.
uint32_t Wavefronts(uint32_t active, uint32_t bytes, const uint32_t* offsets) {
  const uint32_t lanes_at_once = bytes <= 4 ? 32 : std::max(1u, 128 / bytes);
  uint32_t sum = 0;
  for (uint32_t first = 0; first < kLanes; first += lanes_at_once) {
    // The first word of each bank, and all further words, which conflict.
    uint32_t word_of_bank[32];
    uint8_t in_bank[32] = {};
    uint32_t conflicting[kLanes * 4];
    uint32_t conflicts = 0;
    uint32_t most = 0;
    for (uint32_t lane = first; lane < first + lanes_at_once; ++lane) {
      if (((active >> lane) & 1u) == 0) continue;
      for (uint32_t word = offsets[lane] / 4; word <= (offsets[lane] + bytes - 1) / 4; ++word) {
        const uint32_t bank = word % 32;
        if (in_bank[bank] == 0) {
          word_of_bank[bank] = word;
        } else if (word_of_bank[bank] == word || std::find(conflicting, conflicting + conflicts,
                                                           word) != conflicting + conflicts) {
          continue;
        } else {
          conflicting[conflicts++] = word;
        }
        most = std::max<uint32_t>(most, ++in_bank[bank]);
      }
    }
    sum += most;
  }
  return sum;
}

/// Wavefronts without conflicts: one for each group of lanes that is served together.
uint32_t IdealWavefronts(uint32_t active, uint32_t bytes) {
  const uint32_t lanes_at_once = bytes <= 4 ? 32 : std::max(1u, 128 / bytes);
  const uint32_t group = lanes_at_once == 32 ? ~0u : (1u << lanes_at_once) - 1;
  uint32_t sum = 0;
  for (uint32_t first = 0; first < kLanes; first += lanes_at_once) {
    sum += (active & (group << first)) != 0;
  }
  return sum;
}

/// The largest number of active lanes that access the same address.
uint32_t Turns(uint32_t active, const uint64_t* addresses) {
  uint32_t most = 0;
  for (uint32_t rest = active; rest != 0;) {
    const uint64_t address = addresses[__builtin_ctz(rest)];
    uint32_t same = 0;
    for (uint32_t others = rest; others != 0; others &= others - 1) {
      const int lane = __builtin_ctz(others);
      same |= uint32_t{addresses[lane] == address} << lane;
    }
    most = std::max(most, static_cast<uint32_t>(__builtin_popcount(same)));
    rest &= ~same;
  }
  return most;
}

/// The L2 executes the atomics at a line one after another, but combines neighbours that cover a
/// whole sector or more (bench/calibrate on an H200: 3.5 clocks per lane, 5.2 for 32 neighbours).
struct LineTurns {
  uint64_t turns = 0, sectors = 0;
};

/// The turns of lanes that all access the same line, each `each` words in turn.
LineTurns TurnsOf(uint32_t lanes, const uint64_t* addresses, uint32_t each) {
  uint64_t low = UINT64_MAX, high = 0;
  uint32_t sectors = 0, words = 0;
  bool same = false;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const uint64_t address = addresses[__builtin_ctz(rest)];
    const auto own = static_cast<uint32_t>(((uint64_t{1} << each) - 1) << address % kLineBytes / 4);
    same |= (words & own) != 0;
    words |= own;
    sectors |= 1u << (address % kLineBytes / kSectorBytes);
    low = std::min(low, address);
    high = std::max(high, address + uint64_t{each - 1} * 4);
  }
  const auto sector_count = static_cast<uint64_t>(__builtin_popcount(sectors));
  const auto word_count = static_cast<uint64_t>(__builtin_popcount(words));
  const bool dense = !same && word_count >= 8 && (high - low) / 4 + 1 == word_count;
  return {dense ? (sector_count + 1) / 2 : static_cast<uint64_t>(__builtin_popcount(lanes)),
          sector_count};
}

/// An operation on a vector is one request; its first part counts all.
void CountGlobalAtomic(Warp& warp, const Op* op, const LaneAddresses& access) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  if (shape.elements == 0) return;
  const uint32_t words = shape.elements == 1 ? 1 : shape.bytes() / 4;
  const uint64_t* addresses = access.global_addresses;
  const auto count = static_cast<uint32_t>(__builtin_popcount(access.global));
  warp.worker->sampled.global_atomics += uint64_t{count} * shape.elements;
  Profile& profile = *warp.worker->profile;
  records::WorkCounts& work = AccessesOf(warp, op).work;
  ++work.atomic_requests;
  work.atomic_lanes += count;
  work.atomic_turns += Turns(access.global, addresses);
  for (uint32_t rest = access.global; rest != 0;) {
    const uint64_t line = addresses[__builtin_ctz(rest)] / kLineBytes;
    uint32_t here = 0;
    for (uint32_t others = rest; others != 0; others &= others - 1) {
      const int lane = __builtin_ctz(others);
      here |= uint32_t{addresses[lane] / kLineBytes == line} << lane;
    }
    rest &= ~here;
    const LineTurns turns = TurnsOf(here, addresses, words);
    work.atomic_sectors += turns.sectors;
    if (profile.atomics.size() >= kMostLines && !profile.atomics.contains(line)) continue;
    HotLine& hot = profile.atomics[line];
    hot.turns += turns.turns;
    if (hot.last_block != warp.block->number) {
      hot.last_block = warp.block->number;
      ++hot.blocks;
    }
  }
}

/// Lanes that access the same bank take turns, even if they access the same word.
void CountSharedAtomic(Warp& warp, const Op* op, uint32_t active, const uint32_t* offsets) {
  uint8_t in_bank[32] = {};
  uint32_t most = 0;
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    most = std::max<uint32_t>(most, ++in_bank[offsets[__builtin_ctz(rest)] / 4 % 32]);
  }
  warp.worker->sampled.shared_wavefronts += most;
  records::WorkCounts& work = AccessesOf(warp, op).work;
  ++work.shared_requests;
  work.shared_wavefronts += most;
  ++work.shared_ideal_wavefronts;
}

}  // namespace

void CountGlobal(Warp& warp, const Op* op, uint32_t active, uint64_t base,
                 const uint32_t* offsets) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  if (shape.is_constant) return;
  Sectors sectors;
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    sectors.Touch(offsets[__builtin_ctz(rest)], std::min(shape.bytes(), kSectorBytes));
  }
  const uint64_t bytes =
      uint64_t{shape.bytes()} * static_cast<uint32_t>(__builtin_popcount(active));
  OpAccesses& accesses = AccessesOf(warp, op);
  records::WorkCounts& work = accesses.work;
  records::LaunchCounters& counters = warp.worker->sampled;
  work.touched_bytes += sectors.bytes();
  accesses.stride.Cast(StrideOf(active, offsets), warp.block->number);
  if (shape.store) {
    ++work.store_requests;
    work.store_sectors += sectors.count();
    work.store_lines += sectors.lines();
    work.store_bytes += bytes;
    counters.global_store_sectors += sectors.count();
    counters.global_store_bytes += bytes;
  } else {
    ++work.load_requests;
    work.load_sectors += sectors.count();
    work.load_lines += sectors.lines();
    const uint64_t missed = sectors.CountIf([&](uint32_t sector) {
      return !warp.worker->near.Touch(warp.block->number, base / kSectorBytes + sector);
    });
    work.missed_sectors += missed;
    work.missed_requests += missed != 0;
    work.load_bytes += bytes;
    counters.global_load_sectors += sectors.count();
    counters.global_load_bytes += bytes;
  }
}

void CountShared(Warp& warp, const Op* op, uint32_t active, uint32_t bytes,
                 const uint32_t* offsets) {
  const Code& code = *warp.worker->launch->code;
  const SharedFusion fusion =
      op->count < code.fusions.size() ? code.fusions[op->count] : SharedFusion{};
  if (fusion.is_member) return;
  uint32_t moved[kLanes] = {};
  if (fusion.bytes != 0) {
    for (int lane = 0; lane < kLanes; ++lane) {
      moved[lane] = offsets[lane] + static_cast<uint32_t>(fusion.shift);
    }
    bytes = fusion.bytes;
    offsets = moved;
  }
  const uint32_t wavefronts = Wavefronts(active, bytes, offsets);
  warp.worker->sampled.shared_wavefronts += wavefronts;
  records::WorkCounts& work = AccessesOf(warp, op).work;
  ++work.shared_requests;
  work.shared_wavefronts += wavefronts;
  work.shared_ideal_wavefronts += IdealWavefronts(active, bytes);
}

void CountAtomic(Warp& warp, const Op* op, const LaneAddresses& lanes) {
  if (lanes.global != 0) CountGlobalAtomic(warp, op, lanes);
  const uint32_t shared = lanes.shared | lanes.siblings;
  if (shared != 0) CountSharedAtomic(warp, op, shared, lanes.offsets);
}

}  // namespace cupel::emu
