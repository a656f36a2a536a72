// Decides whether a loop can ever end. If a warp reaches the same place twice and no memory has
// changed in between, it has executed a loop. Only the registers that differ between the two visits
// can change what it does next. Following these registers along the path shows whether they
// influence a branch, an address or a stored value. If they do not (an example is a retry counter
// that is never read), the warp repeats the loop in the same way until another thread changes
// memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emu/stall/loop_effects.h"

namespace cupel::emu {

/// An executed op.
struct PathStep {
  uint32_t op = 0;
  uint32_t lanes = 0;
  uint64_t named = 0;  // memory ops: the first lane's address; barriers: the lanes that voted yes
};

/// A set of registers: a bit for 4 bytes of a frame.
class FrameSet {
 public:
  explicit FrameSet(size_t frame_bytes) : words_(frame_bytes / 256 + 1) {}
  void Set(FramePart part);
  void Clear(FramePart part);
  bool Intersects(FramePart part) const;
  size_t words() const { return words_.size(); }
  /// An empty set for the same frame.
  FrameSet EmptySet() const { return FrameSet(256 * (words_.size() - 1)); }
  /// this |= other. Returns true if that changed it.
  bool Merge(const FrameSet& other);

 private:
  std::vector<uint64_t> words_;
};

/// The words in which two frames differ, ignoring the scratch slot.
FrameSet Difference(const std::byte* a, const std::byte* b, size_t bytes);

/// What depends on registers that vary.
struct Dependence {
  bool branches = false;
  bool accesses = false;  // addresses, stored values, barriers
  bool work = false;      // more than counts and times
};

/// Propagates `varying` around the path until it no longer grows.
/// - `source`: an op whose results vary too (UINT32_MAX: none).
/// - `clock`: reads of the clock vary too.
/// - `work`: the remaining steps, reduced here. When they run out, everything counts as dependent.
Dependence Follow(const LoopEffects& effects, std::span<const PathStep> path, FrameSet varying,
                  uint32_t source, bool clock, int64_t* work);

enum class LoopKind : uint8_t {
  kOpen,   // it may make progress: its addresses vary, or a counter decides
  kPolls,  // it keeps reading the same addresses and may give up after a count or a time
  kStuck,  // it repeats in the same way forever unless memory changes
};

struct LoopFacts {
  LoopKind kind = LoopKind::kOpen;
  bool uses_barriers = false;     // waits at barriers of the block
  uint32_t awaited = UINT32_MAX;  // index into the path of the read that decides if the loop ends
};

/// Classifies the loop with this path. Between the two visits only the registers `varying` changed,
/// and no memory.
LoopFacts Judge(const LoopEffects& effects, std::span<const PathStep> path, const FrameSet& varying,
                int64_t* work);

}  // namespace cupel::emu
