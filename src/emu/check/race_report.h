// Reports races, for shared and global memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

struct RaceReport {
  const char* code = "";  // "shared_race", "global_race"
  std::string memory;     // "byte 16 of shared memory", "temporary 2 + 16 bytes"
  std::string where;      // Finding::where
  std::string other;      // "thread 37", "block (3,0,0)"
  int other_line = 0;     // 0: not known
  bool other_wrote = false;
  bool same_warp = false;  // __syncwarp would suffice
  bool other_block = false;
  bool of_block_scope = false;  // the access is atomic within its block only
  bool in_cluster = false;      // both blocks are of one cluster, and the memory is shared
  bool harmless = false;        // it stores the value that memory already has
  bool mixed = false;           // plain read and atomic update, as in compare-and-swap loops
  uint64_t place = 0;           // as Suspicion::place
};

/// A read of unwritten memory is not reported at once, but when the block ends. If another thread
/// writes the place before that, the two accesses are reported as a race.
struct EarlyRead {
  const char* code = "";     // "uninitialized_shared", "missing_copy_wait"
  std::string reads;         // "Thread 3 reads byte 12 of shared memory"
  std::string why;           // the rest of the sentence: ", which nothing has written."
  std::string where;         // Finding::where
  uint64_t place = 0;        // as RaceReport::place
  bool is_unwritten = true;  // false: a copy to it is in flight
};
void Suspect(Warp& warp, const Op* op, uint32_t lane, EarlyRead read);

/// Records the finding: an error, or a warning if the race is harmless. Returns false for an error.
bool Report(Warp& warp, const Op* op, uint32_t lane, AccessKind kind, const RaceReport& report);
/// Warns about a volatile access that follows another lane's only if the warp runs in lockstep.
void WarnLockstep(Warp& warp, const Op* op, uint32_t before, uint32_t now);

/// Converts between an instruction's line and its id in stamps.
uint32_t LineId(const Warp& warp, const Op* op);
int LineOfId(const Warp& warp, uint32_t id);
/// " of line 12"; empty if the line is not known.
std::string OfLine(const Warp& warp, const Op* op);

/// True if what `lane` stores is known, and equals the `bytes` bytes at `host`.
bool StoresSameValue(const Warp& warp, const Op* op, AccessKind kind, uint32_t lane,
                     const std::byte* host, uint32_t bytes);
/// Two lanes of one store write the same place: warns if their values, of `bytes` bytes, are known
/// and differ.
void CompareStores(Warp& warp, const Op* op, AccessKind kind, uint32_t lane, uint32_t other,
                   uint32_t bytes);

}  // namespace cupel::emu
