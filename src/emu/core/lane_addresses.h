// The addresses of an access that is done lane by lane, with all checks (ops/access.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "emu/core/op.h"

namespace cupel::emu {

struct LaneAddresses {
  std::byte* host[kLanes] = {};  // null: local memory, at `local`
  uint64_t local[kLanes] = {};
  uint32_t shared = 0, global = 0;       // lanes
  uint32_t siblings = 0;                 // lanes that access shared memory of other blocks
  uint8_t ranks[kLanes] = {};            // of these blocks
  uint32_t offsets[kLanes] = {};         // in shared memory
  uint32_t global_offsets[kLanes] = {};  // from global_base, unless far
  uint64_t global_addresses[kLanes] = {};
  uint64_t global_base = 0;
  bool far = false, watched = false;
};

}  // namespace cupel::emu
