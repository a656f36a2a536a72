// How races are told, for both kinds of memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "emu/op.h"

namespace cupel::emu {

struct RaceReport {
  const char* code = "";  // "shared_race", "global_race"
  std::string memory;     // "byte 16 of shared memory", "temporary 2 + 16 bytes"
  std::string where;      // Finding::where
  std::string other;      // "thread 37", "block (3,0,0)"
  int other_line = 0;     // 0: not known
  bool other_wrote = false;
  bool same_warp = false;  // __syncwarp would do
  bool other_block = false;
  bool harmless = false;  // it stores what is there already
  bool mixed = false;     // a plain read and an atomic update: compare-and-swap loops begin so
  uint64_t place = 0;     // as Suspicion::place
};

/// A read of what nobody has written is told when the block ends, not at once: if another thread
/// writes the place meanwhile, it is a race that is to be told.
void Suspect(Warp& warp, const Op* op, uint32_t lane, const char* code, const std::string& message,
             const std::string& where, uint64_t place);

/// Records the finding: an error, or a warning when the race is harmless. False for an error.
bool Report(Warp& warp, const Op* op, uint32_t lane, AccessKind kind, const RaceReport& report);
/// A volatile access that follows another lane's only because warps often run in lockstep.
void WarnLockstep(Warp& warp, const Op* op, uint32_t before, uint32_t now);

/// The id of an instruction's line in stamps, and back.
uint32_t LineId(const Warp& warp, const Op* op);
int LineOfId(const Warp& warp, uint32_t id);

/// True when `lane`'s value of a plain store is what `bytes` bytes at `host` hold already.
bool StoresSameValue(const Warp& warp, const Op* op, AccessKind kind, uint32_t lane,
                     const std::byte* host, uint32_t bytes);
/// Two lanes of one plain store write the same place: a warning when their values differ.
void CompareStores(Warp& warp, const Op* op, AccessKind kind, uint32_t lane, uint32_t other);

}  // namespace cupel::emu
