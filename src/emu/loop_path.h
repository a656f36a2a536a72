// Whether a loop can ever end. A warp that comes to the same place twice, while no memory has
// changed, has gone round a loop. What it does next depends on the registers that differ between
// the two visits, if on anything: followed along the path that was taken, they either reach a
// branch, an address or a value that is stored, or they do not. Where they do not (they count what
// nobody asks for), the warp goes round the same way for ever, until somebody else changes memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emu/loop_effects.h"

namespace cupel::emu {

/// An op that was executed, by which lanes, and what it named.
struct PathStep {
  uint32_t op = 0;
  uint32_t lanes = 0;
  uint64_t named = 0;  // memory: the first lane's address; barriers: the lanes that voted yes
};

/// A set of registers: a bit for 4 bytes of a frame.
class FrameSet {
 public:
  explicit FrameSet(size_t frame_bytes) : words_(frame_bytes / 256 + 1) {}
  void Set(FramePart part);
  void Clear(FramePart part);
  bool Meets(FramePart part) const;
  size_t words() const { return words_.size(); }
  /// The empty set of the same frame.
  FrameSet Nothing() const { return FrameSet(256 * (words_.size() - 1)); }
  /// this |= other; true when that changed it.
  bool Merge(const FrameSet& other);

 private:
  std::vector<uint64_t> words_;
};

/// The words in which two frames differ, without the scratch slot.
FrameSet Difference(const std::byte* a, const std::byte* b, size_t bytes);

/// What depends on registers that vary.
struct Dependence {
  bool branches = false;
  bool accesses = false;  // addresses, stored values, barriers
  bool work = false;      // more than counts and times
};

/// Follows `varying` around the path until nothing is added. `source`: an op whose results vary
/// too (UINT32_MAX: none); `clock`: so do reads of the clock. `work`: steps that may still be
/// walked; when they are used up, everything depends on everything.
Dependence Follow(const LoopEffects& effects, std::span<const PathStep> path, FrameSet varying,
                  uint32_t source, bool clock, int64_t* work);

enum class LoopKind : uint8_t {
  kOpen,   // it moves on: other addresses, or a count that decides
  kPolls,  // it reads the same places again and again, and may give up by a count or the clock
  kStuck,  // it goes on the same way for ever while memory stays as it is
};

struct LoopFacts {
  LoopKind kind = LoopKind::kOpen;
  bool meets = false;             // at barriers of the block
  uint32_t awaited = UINT32_MAX;  // index into the path: a read that decides whether it goes on
};

/// The path from one visit to the next, between which the registers `varying` changed and no
/// memory.
LoopFacts Judge(const LoopEffects& effects, std::span<const PathStep> path, const FrameSet& varying,
                int64_t* work);

}  // namespace cupel::emu
