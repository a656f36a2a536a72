// What counted blocks did, by micro-op: how often each ran with how many lanes, and the cost of its
// memory accesses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emu/core/code.h"
#include "engine/engine.h"

namespace cupel::emu {

struct OpVisits {
  uint64_t times = 0, lanes = 0;
  uint64_t splits = 0;  // how often lanes diverged here
};

/// The distance between lanes of most accesses of an op. Found by majority vote in the first
/// counted block that reaches the op, so that the result does not depend on threads.
struct StrideVote {
  int64_t stride = 0;
  uint64_t votes = 0;
  uint64_t block = UINT64_MAX;
  void Cast(int64_t seen, uint64_t in_block);
};

struct OpAccesses {
  records::WorkCounts work;  // only the members for memory
  StrideVote stride;
};

/// Atomics on one line of 128 bytes.
struct HotLine {
  uint64_t turns = 0;
  uint64_t last_block = UINT64_MAX;
  uint64_t blocks = 0;  // counted blocks that used the line
};

/// The profile of one worker.
struct Profile {
  explicit Profile(const Code& code);
  void Add(const Profile& other);

  std::vector<OpVisits> visits;                   // by op
  std::vector<OpAccesses> accesses;               // by op
  std::unordered_map<uint64_t, HotLine> atomics;  // by line; bounded: kMostLines
  /// Of products whose size is known only when they are issued (tcgen05.mma), converted to the rate
  /// of float16.
  uint64_t tensor_operations = 0;
};

}  // namespace cupel::emu
