// A barrier that orders nothing in a run: threads still wait at it, but the race checks do not
// count it. If no race appears, the kernel may do without it (docs/proof.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "emu/core/code.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// The places of a kernel's barriers of the block ("kernel.cu:41"), each once. Without those that
/// have no line.
std::vector<std::string> BarrierPlaces(const Code& code);

/// Thread-safe.
class MutedBarrier {
 public:
  explicit MutedBarrier(std::string place) : place_(std::move(place)) {}
  /// Whether this op is at the place.
  bool Is(const Warp& warp, const Op* op) const;
  /// Whether a warp has arrived there.
  bool met() const { return met_; }

 private:
  std::string place_;
  mutable std::atomic<bool> met_ = false;
  mutable std::mutex mutex_;
  mutable std::unordered_map<const Op*, bool> known_;
};

}  // namespace cupel::emu
