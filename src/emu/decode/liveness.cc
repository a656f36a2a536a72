// PTX has a register for every value. Registers that are never live at the same time share a slot,
// so that the frames of a block's warps stay in the CPU's L1 cache. The method is backward liveness
// analysis over basic blocks, then linear scan. Slots that may be read before they are written are
// poisoned at the start.
//
// Lanes of one warp may be at different places in the program. Sharing is still correct, because
// each lane uses its own column of a slot and each lane's path is covered by the analysis.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <queue>

#include "emu/core/handler_table.h"
#include "emu/decode/decoder.h"
#include "emu/isa/basic_blocks.h"
#include "emu/isa/register_use.h"

namespace cupel::emu {
namespace {

using ptx::Instr;

constexpr size_t kMostBits = size_t{1} << 31;  // of all blocks; above this no slots are shared

/// One bit for each slot.
class SlotSet {
 public:
  explicit SlotSet(size_t slots) : words_((slots + 63) / 64) {}
  void Set(size_t slot) { words_[slot / 64] |= uint64_t{1} << (slot % 64); }
  void Clear(size_t slot) { words_[slot / 64] &= ~(uint64_t{1} << (slot % 64)); }
  bool Has(size_t slot) const { return ((words_[slot / 64] >> (slot % 64)) & 1u) != 0; }
  /// this |= other. Returns true if that changed it.
  bool Merge(const SlotSet& other) {
    uint64_t changed = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      changed |= other.words_[i] & ~words_[i];
      words_[i] |= other.words_[i];
    }
    return changed != 0;
  }
  template <class F>
  void ForEach(F f) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      for (uint64_t rest = words_[i]; rest != 0; rest &= rest - 1) {
        f(i * 64 + static_cast<size_t>(__builtin_ctzll(rest)));
      }
    }
  }

 private:
  std::vector<uint64_t> words_;
};

struct Interval {
  size_t slot = 0;
  size_t begin = SIZE_MAX, end = 0;

  void Extend(size_t at) {
    begin = std::min(begin, at);
    end = std::max(end, at);
  }
};

}  // namespace

void Decoder::ShareSlots() {
  const size_t slots = slots_.size();
  std::vector<bool> fixed(slots, false);  // filled before the start, never written
  for (const auto& [key, slot] : constants_) fixed[static_cast<size_t>(slot)] = true;
  for (const auto& [key, slot] : specials_) fixed[static_cast<size_t>(slot)] = true;
  for (const auto& [key, slot] : parameters_) fixed[static_cast<size_t>(slot)] = true;
  const std::vector<BasicBlock> blocks = BlocksOf(function_);
  // Calls save and restore all registers of a function, so each register then has its own slot.
  if (blocks.empty() || blocks.size() * slots > kMostBits || !inlined_.functions.empty()) {
    for (size_t slot = 0; slot < slots; ++slot) {
      if (!fixed[slot]) undefined_.push_back(static_cast<int>(slot));
    }
    return;
  }
  auto slot_of = [&](int reg) {
    return static_cast<size_t>(register_slot_[static_cast<size_t>(reg)]);
  };

  // Walks a block backward: calls kill(slot, at) and use(slot, at) in reverse execution order.
  auto walk = [&](const BasicBlock& block, auto kill, auto use) {
    for (size_t i = block.end; i-- > block.begin;) {
      if (aliased_[i]) continue;
      const Instr& instr = function_.body[i];
      const RegisterUse registers = UseOf(instr);
      for (int reg : registers.writes) {
        // If the guard is false, the old value stays, so a guarded write kills nothing.
        if (instr.guard < 0) {
          kill(slot_of(reg), i);
        } else {
          use(slot_of(reg), i);
        }
      }
      for (int reg : registers.reads) {
        if (!fixed[slot_of(reg)]) use(slot_of(reg), i);
      }
    }
  };
  std::vector<SlotSet> live_in(blocks.size(), SlotSet(slots));
  std::vector<SlotSet> live_out = live_in;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks.size(); b-- > 0;) {
      for (size_t successor : blocks[b].successors)
        changed |= live_out[b].Merge(live_in[successor]);
      SlotSet live = live_out[b];
      walk(
          blocks[b], [&](size_t slot, size_t) { live.Clear(slot); },
          [&](size_t slot, size_t) { live.Set(slot); });
      changed |= live_in[b].Merge(live);
    }
  }
  std::vector<Interval> intervals(slots);
  for (size_t slot = 0; slot < slots; ++slot) intervals[slot].slot = slot;
  for (size_t b = 0; b < blocks.size(); ++b) {
    live_in[b].ForEach([&](size_t slot) { intervals[slot].Extend(blocks[b].begin); });
    live_out[b].ForEach([&](size_t slot) { intervals[slot].Extend(blocks[b].end); });
    auto extend = [&](size_t slot, size_t at) { intervals[slot].Extend(at); };
    walk(blocks[b], extend, extend);
  }
  std::vector<bool> at_start(slots, false);
  live_in[0].ForEach([&](size_t slot) { at_start[slot] = true; });
  for (size_t reg = 0; reg < register_slot_.size(); ++reg) {
    if (at_start[slot_of(static_cast<int>(reg))]) defined_slot_[reg] = kNeeded;
  }

  // Linear scan over intervals sorted by begin. A slot is free after the end of its last interval.
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return std::pair(a.begin, a.slot) < std::pair(b.begin, b.slot);
  });
  using Busy = std::pair<size_t, size_t>;  // end, slot
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::map<SlotKind, std::priority_queue<size_t, std::vector<size_t>, std::greater<>>> free;
  std::vector<int> home(slots, -1);
  for (const Interval& interval : intervals) {
    if (fixed[interval.slot] || interval.begin == SIZE_MAX) continue;
    while (!busy.empty() && busy.top().first < interval.begin) {
      free[slots_[busy.top().second].kind].push(busy.top().second);
      busy.pop();
    }
    auto& pool = free[slots_[interval.slot].kind];
    size_t chosen = interval.slot;
    if (!pool.empty()) {
      chosen = pool.top();
      pool.pop();
    }
    home[interval.slot] = static_cast<int>(chosen);
    busy.emplace(interval.end, chosen);
    if (at_start[interval.slot]) undefined_.push_back(static_cast<int>(chosen));
  }
  for (int& slot : register_slot_) {
    if (home[static_cast<size_t>(slot)] >= 0) slot = home[static_cast<size_t>(slot)];
  }
  // Slots without registers take no space.
  for (size_t slot = 0; slot < slots; ++slot) {
    if (!fixed[slot] && home[slot] != static_cast<int>(slot)) slots_[slot].kind = SlotKind::kNone;
  }
}

}  // namespace cupel::emu
