// Tested by unused_read_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/check/race_trial.h"

#include <algorithm>
#include <utility>

#include "emu/check/follow_code.h"
#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/code.h"
#include "emu/core/kernel.h"
#include "emu/core/launch_state.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {
namespace {

// Above these numbers, the values count as used.
constexpr size_t kMostPlaces = size_t{1} << 20;
constexpr size_t kMostRacing = size_t{1} << 21;
constexpr size_t kCompared = 8;  // of a place, that are compared with a new one

uint64_t Mixed(uint64_t hash, uint64_t part) {
  hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

uint32_t ClockOf(const Warp& warp) { return warp.block->checker->clocks().of(warp.index).now; }

}  // namespace

RaceTrial::RaceTrial() = default;
RaceTrial::~RaceTrial() = default;

void RaceTrial::Begin(Pass pass) {
  pass_ = pass;
  launch_ = 0;
  raced_ = 0;
  last_found_ = 0;
  logged_ = 0;
  code_ = nullptr;
  shared_.clear();
  global_.clear();
}

const FollowCode* RaceTrial::BeginLaunch(const Kernel& kernel) {
  ++launch_;
  shared_.clear();
  global_.clear();
  logged_ = 0;
  if (pass_ == Pass::kCollect) return nullptr;
  const auto [at, added] = codes_.try_emplace(&kernel);
  if (added) at->second = MakeFollowCode(kernel);
  code_ = at->second.get();
  return pass_ == Pass::kFollow ? code_ : nullptr;
}

void RaceTrial::BeginBlock(bool alone) {
  if (!alone) return;
  for (const auto& [place, reads] : shared_) logged_ -= reads.size();
  shared_.clear();
}

uint64_t RaceTrial::PlaceKey(uint64_t place) const {
  // For all blocks, a byte of shared memory is one place.
  if (IsShared(place)) place = uint64_t{1} << 63 | static_cast<uint32_t>(place);
  return Mixed(launch_, place);
}
uint64_t RaceTrial::ReadKey(uint64_t block, uint32_t thread, uint32_t clock, uint64_t place) const {
  return Mixed(Mixed(Mixed(launch_, block), uint64_t{clock} << 32 | thread), place);
}

bool RaceTrial::IsLoad(const Op* op) const {
  return code_ != nullptr && op->source < code_->flow.instructions() &&
         code_->flow.of(op->source).rule == ValueRule::kLoads;
}

void RaceTrial::AddRacing(uint64_t key) {
  racing_.insert(key);
  failed_ = failed_ || racing_.size() > kMostRacing || code_ == nullptr;
}

bool RaceTrial::Note(const Warp& warp, const Op* op, uint32_t lane, bool is_read, uint64_t place) {
  const uint64_t key =
      ReadKey(warp.block->number, warp.index * kLanes + lane, ClockOf(warp), place);
  switch (pass_) {
    case Pass::kCollect:
      places_.insert(PlaceKey(place));
      failed_ = failed_ || places_.size() > kMostPlaces;
      break;
    case Pass::kFind:
      if (is_read) {
        failed_ = failed_ || !IsLoad(op);
        AddRacing(key);
      } else {
        failed_ = failed_ || last_found_ != place;  // the read is not known
      }
      break;
    case Pass::kFollow:
      failed_ = failed_ || (is_read && !racing_.contains(key));
      break;
  }
  // A pass that saw fewer races than the one before must not miss a read.
  if (pass_ != Pass::kCollect) failed_ = failed_ || !places_.contains(PlaceKey(place));
  return !failed_;
}

void RaceTrial::OnRead(const Warp& warp, const Op* op, uint32_t lane, uint64_t place) {
  if (!places_.contains(PlaceKey(place))) return;
  const Read read{warp.block->number, warp.index * kLanes + lane, ClockOf(warp), IsLoad(op)};
  if (pass_ == Pass::kFollow) {
    if (racing_.contains(ReadKey(read.block, read.thread, read.clock, place))) raced_ |= 1u << lane;
    return;
  }
  std::vector<Read>& reads = (IsShared(place) ? shared_ : global_)[place];
  const size_t last = std::min(reads.size(), kCompared);
  for (size_t i = reads.size() - last; i < reads.size(); ++i) {
    Read& other = reads[i];
    if (other.block != read.block || other.thread != read.thread || other.clock != read.clock) {
      continue;
    }
    other.is_load = other.is_load && read.is_load;
    return;
  }
  reads.push_back(read);
  failed_ = failed_ || ++logged_ > kMostRacing;
}

uint32_t RaceTrial::TakeRaced() { return std::exchange(raced_, 0u); }

}  // namespace cupel::emu
