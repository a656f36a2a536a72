// Tested by stall_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/stall/loop_path.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace cupel::emu {
namespace {

// Limits on the work. A loop that exceeds them counts as making progress.
constexpr int kMostWalks = 64;     // walks around a path
constexpr size_t kMostParts = 64;  // varying registers in a loop that only waits
constexpr size_t kMostReads = 16;  // reads of a path that are checked for dependent branches

bool ReadsMemory(const OpEffect& effect) {
  return effect.kind == Effect::kRead || effect.kind == Effect::kUpdate ||
         effect.kind == Effect::kWait;
}

/// Propagates `varying` along the path once.
void Propagate(const LoopEffects& effects, std::span<const PathStep> path, uint32_t all_lanes,
               uint32_t source, bool clock, FrameSet& varying, Dependence& found) {
  for (const PathStep& step : path) {
    const OpEffect& effect = effects.of(step.op);
    bool depends = false;
    for (size_t i = 0; i < effect.reads; ++i) depends |= varying.Intersects(effect.read[i]);
    switch (effect.kind) {
      case Effect::kDecide:
      case Effect::kGuard:
        found.branches |= depends;
        continue;
      case Effect::kRead:
      case Effect::kWrite:
      case Effect::kUpdate:
      case Effect::kWait:
      case Effect::kOther:
        found.accesses |= depends;
        depends = false;  // memory does not change, so the value read does not either
        break;
      case Effect::kBarrier:
        found.accesses |= depends;
        break;
      case Effect::kTime:
        depends = clock;
        break;
      case Effect::kNothing:
      case Effect::kCompute:
        break;
    }
    depends |= step.op == source;
    for (size_t i = 0; i < effect.writes; ++i) {
      if (depends) {
        found.work |= effect.kind == Effect::kCompute && !effect.is_simple;
        varying.Set(effect.written[i]);
      } else if (step.lanes == all_lanes) {
        varying.Clear(effect.written[i]);
      }
    }
  }
}

}  // namespace

void FrameSet::Set(FramePart part) {
  for (int32_t at = part.offset / 4; at < (part.offset + part.bytes) / 4; ++at) {
    words_[static_cast<size_t>(at) / 64] |= uint64_t{1} << (at % 64);
  }
}
void FrameSet::Clear(FramePart part) {
  for (int32_t at = part.offset / 4; at < (part.offset + part.bytes) / 4; ++at) {
    words_[static_cast<size_t>(at) / 64] &= ~(uint64_t{1} << (at % 64));
  }
}
bool FrameSet::Intersects(FramePart part) const {
  for (int32_t at = part.offset / 4; at < (part.offset + part.bytes) / 4; ++at) {
    if (((words_[static_cast<size_t>(at) / 64] >> (at % 64)) & 1u) != 0) return true;
  }
  return false;
}
bool FrameSet::Merge(const FrameSet& other) {
  uint64_t added = 0;
  for (size_t i = 0; i < words_.size(); ++i) {
    added |= other.words_[i] & ~words_[i];
    words_[i] |= other.words_[i];
  }
  return added != 0;
}

FrameSet Difference(const std::byte* a, const std::byte* b, size_t bytes) {
  FrameSet set(bytes);
  constexpr size_t kStep = 64;
  for (size_t at = kScratchBytes; at < bytes; at += kStep) {
    const size_t end = std::min(at + kStep, bytes);
    if (std::memcmp(a + at, b + at, end - at) == 0) continue;
    for (size_t word = at; word < end; word += 4) {
      if (std::memcmp(a + word, b + word, 4) != 0) set.Set({static_cast<int32_t>(word), 4});
    }
  }
  return set;
}

Dependence Follow(const LoopEffects& effects, std::span<const PathStep> path, FrameSet varying,
                  uint32_t source, bool clock, int64_t* work) {
  uint32_t all_lanes = 0;
  for (const PathStep& step : path) all_lanes |= step.lanes;
  Dependence found;
  for (int walk = 0; walk < kMostWalks && *work > 0; ++walk) {
    *work -= static_cast<int64_t>(path.size() + varying.words() / 4);
    found = {};
    FrameSet after = varying;
    Propagate(effects, path, all_lanes, source, clock, after, found);
    if (!varying.Merge(after)) return found;
  }
  found.branches = found.accesses = found.work = true;
  return found;
}

namespace {

/// True if the first op of the path that touches the part reads it, so that its value comes from
/// the previous iteration.
bool IsCarried(const LoopEffects& effects, std::span<const PathStep> path, FramePart part,
               uint32_t all_lanes) {
  const auto overlaps = [&](FramePart other) {
    return other.offset < part.offset + part.bytes && part.offset < other.offset + other.bytes;
  };
  for (const PathStep& step : path) {
    const OpEffect& effect = effects.of(step.op);
    const auto read = std::span(effect.read).first(effect.reads);
    const auto written = std::span(effect.written).first(effect.writes);
    if (std::any_of(read.begin(), read.end(), overlaps)) return true;
    if (step.lanes == all_lanes && std::any_of(written.begin(), written.end(), overlaps)) {
      return false;
    }
  }
  return false;
}

/// True if the loop does nothing but wait: between iterations it carries only counters and times
/// that decide when it ends, and no results.
bool OnlyWaits(const LoopEffects& effects, std::span<const PathStep> path, const FrameSet& varying,
               int64_t* work) {
  uint32_t all_lanes = 0;
  for (const PathStep& step : path) all_lanes |= step.lanes;
  std::set<int32_t> checked;
  for (const PathStep& step : path) {
    const OpEffect& effect = effects.of(step.op);
    for (const FramePart part : std::span(effect.written).first(effect.writes)) {
      if (!varying.Intersects(part) || !checked.insert(part.offset).second) continue;
      if (checked.size() > kMostParts) return false;
      if (!IsCarried(effects, path, part, all_lanes)) continue;
      FrameSet alone = varying.EmptySet();
      alone.Set(part);
      const Dependence dependence = Follow(effects, path, alone, UINT32_MAX, false, work);
      if (!dependence.branches || dependence.work) return false;
    }
  }
  return true;
}

}  // namespace

LoopFacts Judge(const LoopEffects& effects, std::span<const PathStep> path, const FrameSet& varying,
                int64_t* work) {
  LoopFacts facts;
  uint64_t votes = 0;
  for (const PathStep& step : path) {
    const OpEffect& effect = effects.of(step.op);
    if (effect.kind == Effect::kOther) return facts;
    if (effect.kind != Effect::kBarrier) continue;
    facts.uses_barriers = true;
    if (effect.writes == 0) continue;
    // A reduction at a barrier keeps its result only if all lanes always vote the same.
    const uint64_t vote = step.named << 32 | step.lanes;
    if (votes != 0 && vote != votes) return facts;
    votes = vote;
  }
  const Dependence dependence = Follow(effects, path, varying, UINT32_MAX, true, work);
  if (dependence.accesses) return facts;
  // Find a read that a branch depends on. Prefer volatile and atomic reads.
  bool is_strong = false;
  size_t checked = 0;
  for (size_t i = 0; i < path.size() && checked < kMostReads && !is_strong; ++i) {
    const OpEffect& effect = effects.of(path[i].op);
    if (!ReadsMemory(effect) || (facts.awaited != UINT32_MAX && !effect.is_strong)) continue;
    ++checked;
    if (!Follow(effects, path, varying.EmptySet(), path[i].op, false, work).branches) continue;
    facts.awaited = static_cast<uint32_t>(i);
    is_strong = effect.is_strong;
  }
  if (!dependence.branches) {
    facts.kind = LoopKind::kStuck;
  } else if (is_strong && OnlyWaits(effects, path, varying, work)) {
    facts.kind = LoopKind::kPolls;
  }
  return facts;
}

}  // namespace cupel::emu
