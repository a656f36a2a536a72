// What an access leaves on the memory it touches, for finding data races: who, when, where in the
// source. Two sizes of one layout, so that sixteen or eight lanes are compared at once.
//
//   shared: clock 14 | line 7 | flag 1 | warp 5 | lane 5
//   global: block 28 | clock 18 | line 7 | flag 1 | warp 5 | lane 5
//
// A write's flag says that it was strong (atomic or volatile), a read's that several threads have
// read: then the lane field is 0 while they are all of one warp, and 1 when they are of several.
// Zero is no access at all. The line is an index into Code::line_of_id.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cupel::emu {

using Stamp = uint32_t;
using GlobalStamp = uint64_t;

inline constexpr int kLineShift = 11;
inline constexpr int kClockShift = 18;
inline constexpr int kBlockShift = 36;
inline constexpr uint32_t kLineIds = 128;  // the last stands for all lines beyond
inline constexpr uint32_t kStampFlag = 1u << 10;
inline constexpr uint32_t kThreadMask = 0x3ff;
inline constexpr uint32_t kMostSharedClock = (1u << 14) - 2;
inline constexpr uint32_t kMostGlobalClock = (1u << 18) - 2;
inline constexpr uint64_t kMostBlocks = (1u << 28) - 2;
/// Written before anything that is checked: by a node of the plan, or by an initialiser.
inline constexpr uint32_t kInitialised = kStampFlag;

/// An asynchronous copy will fill it.
inline constexpr uint32_t kCopyPending = 1;

inline uint32_t LineIdOf(uint64_t stamp) {
  return static_cast<uint32_t>(stamp >> kLineShift) % kLineIds;
}
inline uint32_t WarpOf(uint64_t stamp) { return static_cast<uint32_t>(stamp >> 5) & 31u; }
inline uint32_t ThreadOf(uint64_t stamp) { return static_cast<uint32_t>(stamp) & kThreadMask; }
inline bool HasFlag(uint64_t stamp) { return (stamp & kStampFlag) != 0; }
inline bool SeveralWarps(uint64_t read) { return HasFlag(read) && (read & 31u) != 0; }
inline uint32_t SharedClockOf(Stamp stamp) { return stamp >> kClockShift; }
inline uint32_t GlobalClockOf(GlobalStamp stamp) {
  return static_cast<uint32_t>(stamp >> kClockShift) & 0x3ffffu;
}
inline uint64_t BlockOf(GlobalStamp stamp) { return stamp >> kBlockShift; }

/// The stamp of a further read, which would leave `mine` alone and does not follow the one that
/// left `read`. The earlier clock stays: whoever comes after all readers has seen one of the others
/// at least so far, also where the reader whose clock is ahead is the one who comes.
template <class S>
inline S AddReader(S read, S mine) {
  const bool several = SeveralWarps(read) || WarpOf(read) != WarpOf(mine);
  return ((mine < read ? mine : read) & ~S{31}) | kStampFlag | S{several};
}

}  // namespace cupel::emu
