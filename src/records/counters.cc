// SPDX-License-Identifier: Apache-2.0
#include "records/counters.h"

namespace cupel::records {

const char* Name(InstructionClass which) {
  static constexpr const char* kNames[kInstructionClasses] = {
      "fp32",   "fp64",  "fp16",     "tensor", "integer", "special", "conversion", "global",
      "shared", "local", "constant", "atomic", "control", "barrier", "warp"};
  return kNames[static_cast<size_t>(which)];
}

void WorkCounts::Add(const WorkCounts& other) {
  warp_instructions += other.warp_instructions;
  lane_instructions += other.lane_instructions;
  branches += other.branches;
  divergent_branches += other.divergent_branches;
  load_requests += other.load_requests;
  store_requests += other.store_requests;
  load_sectors += other.load_sectors;
  store_sectors += other.store_sectors;
  missed_requests += other.missed_requests;
  missed_sectors += other.missed_sectors;
  load_lines += other.load_lines;
  store_lines += other.store_lines;
  load_bytes += other.load_bytes;
  store_bytes += other.store_bytes;
  touched_bytes += other.touched_bytes;
  shared_requests += other.shared_requests;
  shared_wavefronts += other.shared_wavefronts;
  shared_ideal_wavefronts += other.shared_ideal_wavefronts;
  atomic_requests += other.atomic_requests;
  atomic_lanes += other.atomic_lanes;
  atomic_sectors += other.atomic_sectors;
  atomic_turns += other.atomic_turns;
  barriers += other.barriers;
}

}  // namespace cupel::records
