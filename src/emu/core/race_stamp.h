// The stamp that an access leaves on its memory, to find data races: thread, time, source line. Two
// sizes share one layout, so that sixteen or eight lanes are compared at once.
//
//   shared: clock 14 | line 7 | flag 1 | warp 5 | lane 5
//   global: block 28 | clock 18 | line 7 | flag 1 | warp 5 | lane 5
//
// A write's flag means that it was strong (atomic or volatile). A read's flag means that several
// threads have read; the lane field is then 0 if all are of one warp, and 1 otherwise. A stamp of
// zero means no access. The line is an index into Code::line_of_id.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cupel::emu {

using Stamp = uint32_t;
using GlobalStamp = uint64_t;

inline constexpr int kLineShift = 11;
inline constexpr int kClockShift = 18;
inline constexpr int kBlockShift = 36;
inline constexpr uint32_t kLineIds = 128;  // the last one is for all further lines
inline constexpr uint32_t kStampFlag = 1u << 10;
inline constexpr uint32_t kThreadMask = 0x3ff;
inline constexpr uint32_t kMostSharedClock = (1u << 14) - 2;
inline constexpr uint32_t kMostGlobalClock = (1u << 18) - 2;
inline constexpr uint64_t kMostBlocks = (1u << 28) - 2;
/// Written by a node of the plan or by an initialiser, before any checked access.
inline constexpr uint32_t kInitialised = kStampFlag;

/// The clock of a write to shared memory by an asynchronous copy that is in progress. No access is
/// ordered after it. The stamp's line and thread are those of the copy.
inline constexpr uint32_t kPendingClock = kMostSharedClock + 1;

/// In place of a write to shared memory that another block of the cluster has accessed: the stamps
/// are elsewhere (cluster_stamps.h). As for a pending copy, no access is ordered after it.
inline constexpr Stamp kElsewhere = kPendingClock << kClockShift | kStampFlag;

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
inline bool IsPending(Stamp write) {
  return SharedClockOf(write) == kPendingClock && !HasFlag(write);
}
inline uint64_t BlockOf(GlobalStamp stamp) { return stamp >> kBlockShift; }

/// Combines the stamps of two unordered reads, `read` and `mine`. The earlier clock is kept: a
/// thread that is ordered after all readers has seen each of them, except itself, at least up to
/// that clock. This also holds if that thread is the reader with the later clock.
template <class S>
inline S AddReader(S read, S mine) {
  const bool several = SeveralWarps(read) || WarpOf(read) != WarpOf(mine);
  return ((mine < read ? mine : read) & ~S{31}) | kStampFlag | S{several};
}

}  // namespace cupel::emu
