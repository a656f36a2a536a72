// Findings: what a warp did wrong, the source line, and the thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "emu/core/block_state.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "engine/engine.h"
#include "plan/plan.h"

namespace cupel::emu {

struct ClusterState;

enum class FaultKind : uint8_t {
  kOutOfBounds,
  kMisaligned,
  kReadOnly,
  kForeign,
  kFreed,   // of the heap of device code
  kExited,  // shared memory of a block of the cluster that has exited
};
/// "(1, 0, 2)"
std::string Text(const plan::Dim3& index);
/// Reports a wrong access of `bytes` bytes at `address` (generic, or in its space) by a lane.
const Op* MemoryFault(Warp& warp, const Op* op, FaultKind kind, MemorySpace space, int lane,
                      uint64_t address, uint32_t bytes, bool store);
/// `lane` is the reported thread (-1: the first active one), `where` is Finding::where.
const Op* Fault(Warp& warp, const Op* op, const char* code, const std::string& message,
                int lane = -1, std::string where = {});
void Warn(Warp& warp, const Op* op, const char* code, const std::string& message, int lane = -1,
          std::string where = {});
/// A finding about `lane` at `op`, without a message.
records::Finding Describe(const Warp& warp, const Op* op, const char* code, int lane);
/// Records a warning.
void RecordWarning(Warp& warp, uint32_t source, records::Finding finding);
/// Records an error, which ends the launch.
void RecordFault(Warp& warp, uint32_t source, records::Finding finding);
/// Reports the worker's suspicion as a warning when the block has ended. It is only a warning: if
/// the value matters, poison shows up in the outputs.
void SettleSuspicion(Warp& warp);
/// Reports a warp that waits for wgmma instructions which other warps of its warpgroup do not
/// execute, or for tensor memory. Returns false if there is none.
bool ReportOwnWait(BlockState& block);
/// Reports that no thread of the cluster can continue, and where the threads wait.
void ReportDeadlock(ClusterState& cluster);
/// Reports that `what` ("block" or "launch") has used up its `budget`.
void ReportBudget(Warp& warp, const char* what, int64_t budget);

}  // namespace cupel::emu
