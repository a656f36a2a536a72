// Finds out whether the values that racing reads read are used. A race between a write and a read
// is harmless if they are not: software pipelines fetch a step that does not come, and Triton lets
// several warps load a small tile of which only one stores the result.
//
// When such a race is found, the reader's registers are often gone. So the plan runs again, in
// three passes with the same seed on one thread:
//   kCollect  races between a read and a write do not end the run; their places are collected
//   kFind     reads of these places are logged; those that are not ordered with a write are the
//             racing reads
//   kFollow   the values of racing reads are followed through registers (follow_code.h). Any use
//             ends the pass. The values are also changed, so that a use that the rules missed shows
//             in the results
// All other errors are errors in these passes, too. When in doubt, a value is used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

struct Kernel;
struct FollowCode;

/// Not thread-safe: the passes run on one thread.
class RaceTrial {
 public:
  enum class Pass : uint8_t { kCollect, kFind, kFollow };

  RaceTrial();
  ~RaceTrial();
  RaceTrial(const RaceTrial&) = delete;
  RaceTrial& operator=(const RaceTrial&) = delete;

  /// Starts a pass: the next launch is the plan's first.
  void Begin(Pass pass);
  /// `kernel` must stay valid. Returns the code to run instead of the kernel's; null: the kernel's.
  const FollowCode* BeginLaunch(const Kernel& kernel);
  /// A block of the launch starts. `alone`: no other block is running.
  void BeginBlock(bool alone);

  Pass pass() const { return pass_; }
  /// True if every access must be seen, so that the vector code of the race checks must not be
  /// used.
  bool sees_all() const { return pass_ != Pass::kCollect; }
  /// True if a value is used, or may be.
  bool failed() const { return failed_; }
  void Fail() { failed_ = true; }

  /// A race of an access by `lane` with an earlier access to `place` (RaceReport::place), one of
  /// them a plain read. Returns false if the read's value counts as used.
  bool Note(const Warp& warp, const Op* op, uint32_t lane, bool is_read, uint64_t place);

  /// A plain read of `place` (passes that see all).
  void OnRead(const Warp& warp, const Op* op, uint32_t lane, uint64_t place);
  /// A write to `place`. `is_ordered(block, thread, clock)`: a read by that thread at that clock is
  /// ordered before it.
  template <class F>
  void OnWrite(uint64_t place, bool is_strong, F is_ordered);

  /// Pass kFollow: the lanes whose racing reads the current instruction did. Clears them.
  uint32_t TakeRaced();

 private:
  /// A read of a place: all reads of it by one thread at one clock.
  struct Read {
    uint64_t block = 0;
    uint32_t thread = 0;
    uint32_t clock = 0;
    bool is_load = false;  // into registers
  };
  using Reads = std::unordered_map<uint64_t, std::vector<Read>>;  // by place

  uint64_t PlaceKey(uint64_t place) const;
  uint64_t ReadKey(uint64_t block, uint32_t thread, uint32_t clock, uint64_t place) const;
  bool IsLoad(const Op* op) const;
  void AddRacing(uint64_t key);
  static bool IsShared(uint64_t place) { return place >> 63 != 0; }

  Pass pass_ = Pass::kCollect;
  bool failed_ = false;
  uint32_t launch_ = 0;
  uint32_t raced_ = 0;
  uint64_t last_found_ = 0;  // the place of the last write that raced with a logged read
  size_t logged_ = 0;
  const FollowCode* code_ = nullptr;
  std::unordered_set<uint64_t> places_;  // hashes: a collision can only add a place
  std::unordered_set<uint64_t> racing_;  // the same of reads
  Reads shared_, global_;
  std::map<const Kernel*, std::unique_ptr<FollowCode>> codes_;
};

template <class F>
void RaceTrial::OnWrite(uint64_t place, bool is_strong, F is_ordered) {
  if (pass_ != Pass::kFind) return;
  Reads& reads = IsShared(place) ? shared_ : global_;
  const auto found = reads.find(place);
  if (found == reads.end()) return;
  for (const Read& read : found->second) {
    if (is_ordered(read.block, read.thread, read.clock)) continue;
    last_found_ = place;
    failed_ = failed_ || !read.is_load;
    AddRacing(ReadKey(read.block, read.thread, read.clock, place));
  }
  // A later write is ordered after these reads if it is ordered after this one. If it is not, that
  // is an error, unless both are strong.
  if (is_strong) return;
  logged_ -= found->second.size();
  reads.erase(found);
}

}  // namespace cupel::emu
