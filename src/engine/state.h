// What a call of a kernel leaves behind for the next one: values in the module's __device__
// variables, and in memory that is not rewritten (workspaces that host code keeps, and memory that
// an allocator reuses).
// SPDX-License-Identifier: Apache-2.0
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

/// A Program of an engine that controls this state also implements this interface.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  /// From now on, a call finds in variables and memory what the previous call left, until
  /// ForgetState. Some engines always keep variables.
  virtual void KeepState() {}
  /// The next call finds the variables as the module was loaded, and poison in memory.
  virtual void ForgetState() = 0;
  /// The next call finds random numbers in that memory and in the variables that calls have
  /// changed.
  virtual void ScrambleState(uint64_t seed) = 0;
  /// True if reads of unwritten memory become findings.
  virtual bool SeesUnwrittenReads() const { return false; }
};

/// The warning for a variable that a call has changed: the next call may depend on it. `name` is as
/// in the image.
records::Finding StateFinding(const std::string& name);

/// Fills whole words with positive numbers of every magnitude, so that some exceed any limit that a
/// kernel may set for a counter of calls.
void Scramble(std::span<std::byte> bytes, Random& random);

/// The contents of a plan's buffers that outlive a call, by buffer; empty if not kept.
using KeptMemory = std::vector<std::vector<std::byte>>;

/// True if an earlier call may have left the buffer's contents.
bool OutlivesCalls(const plan::Buffer& buffer);
/// True if the buffers that outlive a call of `plan` are small enough to keep, about 256 MB.
bool CanKeepMemory(const plan::Plan& plan);

}  // namespace cupel::engine
