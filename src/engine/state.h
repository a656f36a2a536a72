// What a call of a kernel leaves behind and the next one may find: in the module's __device__
// variables, and in memory that is not written anew (workspaces that host code keeps; what an
// allocator hands out again). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/run.h"
#include "plan/plan.h"

namespace cupel::engine {

/// An engine that keeps state in its own hands lets its programs derive from this, too.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  /// From now on a call finds in variables and memory what the one before it left, until
  /// ForgetState. Some engines keep variables at all times.
  virtual void KeepState() {}
  /// The next call finds the variables that the module was loaded with, and poison.
  virtual void ForgetState() = 0;
  /// The next call finds random numbers in that memory, and in the variables that calls have
  /// changed.
  virtual void ScrambleState(uint64_t seed) = 0;
  /// Whether a read of what nothing has written would have become a finding.
  virtual bool SeesUnwrittenReads() const { return false; }
};

/// What is noted of a variable that holds something else after a call: worth knowing, because what
/// comes next may depend on it. `name` as in the image.
Finding LeavesState(const std::string& name);

/// Fills whole words with positive numbers of every magnitude: one of them is a count of calls past
/// its limit, whatever that is.
void Scramble(std::span<std::byte> bytes, Random& random);

/// The contents of a plan's buffers that outlive a call, by buffer; empty: not kept.
using LeftMemory = std::vector<std::vector<std::byte>>;

/// Whether the buffer's contents are what an earlier call may have left.
bool OutlivesCalls(const plan::Buffer& buffer);
/// Whether what outlives a call of `plan` is little enough to be kept, some 256 MB.
bool CanKeepMemory(const plan::Plan& plan);

}  // namespace cupel::engine
