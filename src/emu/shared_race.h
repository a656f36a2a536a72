// Full checks of shared memory: races, and reads of words that nobody wrote. Time is counted in two
// clocks: barriers of the block, and synchronisations within a warp. Two accesses to one word, one
// of them a write, race when neither clock has moved between them; atomics do not race with each
// other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "emu/op.h"

namespace cupel::emu {

class SharedChecker {
 public:
  /// For a block whose shared memory has `bytes` bytes.
  explicit SharedChecker(uint64_t bytes, uint32_t warps);
  void Reset();

  /// False when an error was reported.
  bool Check(Warp& warp, const Op* op, bool store, bool atomic, uint32_t active, uint32_t bytes,
             const uint32_t* offsets);
  void NoteWarpSync(const Warp& warp, uint32_t mask);
  void NoteArrival(const Warp& warp, uint32_t barrier);
  void NoteBarrier(const BlockState& block, uint32_t barrier);

 private:
  static constexpr int kNobody = -1;
  /// The last access of a kind to a word.
  struct Access {
    uint32_t epoch = 0;       // of the accessing warp's barrier clock
    uint32_t warp_epoch = 0;  // of the accessing lane's synchronisations in its warp
    int32_t thread = kNobody;
    uint32_t source = 0;
    bool atomic = false;
  };
  struct Word {
    Access write, read;
    bool several_readers = false;  // of several threads since the last write
    uint8_t written = 0;           // bytes
  };

  bool Ordered(const Access& before, const Warp& warp, int lane) const;
  void ReportRace(Warp& warp, const Op* op, int lane, uint32_t offset, const Access& other,
                  bool store, bool other_store) const;

  std::vector<Word> words_;
  std::vector<uint32_t> epoch_;       // by warp: how many barriers it has passed
  std::vector<uint32_t> warp_epoch_;  // by warp
  std::vector<uint32_t> lane_epoch_;  // by thread: warp_epoch_ at its last synchronisation
};

/// A barrier that lanes of one warp reached at two places.
void ReportSplitBarrier(Warp& warp, const Op* first, const Op* second);

}  // namespace cupel::emu
