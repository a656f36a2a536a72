// Findings: what a warp did wrong, the source line, and the thread.
// SPDX-License-Identifier: Apache-2.0
#include "emu/check/report.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/cluster.h"
#include "emu/core/code.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/core/source_line.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {
namespace {

constexpr size_t kMostFindings = 64;  // of one worker

SourceLine LineOfOp(const Warp& warp, const Op* op) {
  const Code& code = *warp.worker->launch->code;
  if (op->source >= code.sources.size()) return {};
  return LineOf(*code.module, code.sources[op->source].location);
}

plan::Dim3 ThreadIndex(const Warp& warp, int lane) {
  const plan::Dim3& block = warp.worker->launch->request->block;
  const uint32_t linear = warp.index * kLanes + static_cast<uint32_t>(lane);
  return {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
}

int FirstLane(uint32_t mask) { return mask == 0 ? 0 : __builtin_ctz(mask); }

/// Counts another finding of the same kind. An error hides warnings.
void Join(records::Finding finding, records::Finding* seen) {
  const uint64_t count = seen->count + finding.count;
  const bool is_worse =
      finding.severity == records::Severity::kError && seen->severity != records::Severity::kError;
  if (is_worse) *seen = std::move(finding);
  seen->count = count;
}

void Record(Warp& warp, uint32_t source, records::Finding finding) {
  Worker& worker = *warp.worker;
  const uint64_t block = warp.block->number;
  if (finding.severity == records::Severity::kError) {
    uint64_t stop = worker.launch->stop_at.load();
    while (block < stop && !worker.launch->stop_at.compare_exchange_weak(stop, block)) {
    }
  }
  for (SeenFinding& seen : worker.findings) {
    if (seen.source == source && seen.finding.code == finding.code) {
      Join(std::move(finding), &seen.finding);
      return;
    }
  }
  if (worker.findings.size() >= kMostFindings && finding.severity != records::Severity::kError)
    return;
  worker.findings.push_back({block, source, std::move(finding)});
}

const char* Plural(uint64_t count) { return count == 1 ? "" : "s"; }

/// Describes `address` in a block's memory of `size` bytes.
std::string Within(const std::string& what, uint64_t address, uint64_t size, uint32_t bytes) {
  const uint64_t end = address + bytes;
  if (end > size && address < (uint64_t{1} << 31)) {
    return fmt::format("{} + {} bytes, {} past its end ({} bytes)", what, address, end - size,
                       size);
  }
  return fmt::format("{} + {} bytes", what, static_cast<int64_t>(static_cast<int32_t>(address)));
}

/// "32 threads at line 12, 8 threads at line 31": where groups of the cluster wait.
std::string WaitingLines(const ClusterState& cluster) {
  std::map<int, int> lanes_at;  // by line
  for (const auto& block : cluster.blocks) {
    for (const Warp& warp : block->warps) {
      for (int i = 0; i < warp.others; ++i) {
        const Group& group = warp.other[static_cast<size_t>(i)];
        const Op* op = group.state == GroupState::kBarrier ? group.pc - 1 : group.pc;
        lanes_at[LineOfOp(warp, op).line] += __builtin_popcount(group.mask);
      }
    }
  }
  std::string text;
  for (const auto& [line, lanes] : lanes_at) {
    text += fmt::format("{}{} thread{} at line {}", text.empty() ? "" : ", ", lanes,
                        Plural(static_cast<uint64_t>(lanes)), line);
  }
  return text;
}

/// The shared memory that an address is in.
std::string SharedName(const Warp& warp, const SharedPlace& place) {
  if (place.block == nullptr || place.block == warp.block) return "shared memory";
  return "shared memory of block " + Text(place.block->index);
}

/// What is wrong with an access to shared memory that is out of bounds. `access` describes it.
std::string OutsideOfShared(const Warp& warp, const std::string& access, uint64_t address,
                            uint32_t bytes) {
  const SharedPlace place = FindShared(*warp.block, address);
  const std::string name = SharedName(warp, place);
  const ClusterState& cluster = *warp.block->cluster;
  const uint64_t rank = (address >> kRankShift) - 1;
  if (place.block == nullptr && cluster.several() && rank < 2 * kLargestCluster) {
    return fmt::format("{} is in the shared memory of rank {}, but the cluster has {} blocks.",
                       access, rank, cluster.blocks.size());
  }
  if (place.block != nullptr && place.block != warp.block &&
      place.offset + uint64_t{bytes} <= warp.shared_bytes) {
    return fmt::format("{} needs .shared::cluster or a generic address to reach {}.", access, name);
  }
  return fmt::format("{} is outside of {}.", access, name);
}

}  // namespace

std::string Text(const plan::Dim3& index) {
  return fmt::format("({}, {}, {})", index.x, index.y, index.z);
}

records::Finding Describe(const Warp& warp, const Op* op, const char* code, int lane) {
  records::Finding finding;
  finding.code = code;
  finding.kernel = warp.worker->launch->kernel->demangled;
  const SourceLine line = LineOfOp(warp, op);
  finding.file = line.file;
  finding.line = line.line;
  finding.block = warp.block->index;
  finding.thread = ThreadIndex(warp, lane);
  return finding;
}

void SettleSuspicion(Warp& warp) {
  Suspicion& suspicion = warp.worker->suspicion;
  if (!suspicion.finding) return;
  records::Finding finding = std::move(*suspicion.finding);
  suspicion.finding.reset();
  RecordWarning(warp, suspicion.source, std::move(finding));
}

void RecordWarning(Warp& warp, uint32_t source, records::Finding finding) {
  finding.severity = records::Severity::kWarning;
  Record(warp, source, std::move(finding));
}

void RecordFault(Warp& warp, uint32_t source, records::Finding finding) {
  warp.stop = Stop::kFault;
  SettleSuspicion(warp);
  Record(warp, source, std::move(finding));
}

const Op* Fault(Warp& warp, const Op* op, const char* code, const std::string& message, int lane,
                std::string where) {
  records::Finding finding = Describe(warp, op, code, lane < 0 ? FirstLane(warp.active) : lane);
  finding.message = message;
  finding.where = std::move(where);
  RecordFault(warp, op->source, std::move(finding));
  return nullptr;
}

void Warn(Warp& warp, const Op* op, const char* code, const std::string& message, int lane,
          std::string where) {
  records::Finding finding = Describe(warp, op, code, lane < 0 ? FirstLane(warp.active) : lane);
  finding.severity = records::Severity::kWarning;
  finding.message = message;
  finding.where = std::move(where);
  Record(warp, op->source, std::move(finding));
}

const Op* MemoryFault(Warp& warp, const Op* op, FaultKind kind, MemorySpace space, int lane,
                      uint64_t address, uint32_t bytes, bool store) {
  const char* code = "misaligned";
  if (kind == FaultKind::kOutOfBounds) code = "out_of_bounds";
  if (kind == FaultKind::kReadOnly) code = "writes_input";
  if (kind == FaultKind::kForeign) code = "foreign_buffer";
  if (kind == FaultKind::kFreed) code = "use_after_free";
  if (kind == FaultKind::kExited) code = "exited_block";
  records::Finding finding = Describe(warp, op, code, lane);
  const SharedPlace place = FindShared(*warp.block, address);
  std::string name = "global memory";
  switch (space) {
    case MemorySpace::kShared:
      name = SharedName(warp, place);
      finding.where =
          Within(name, place.block == nullptr ? address : place.offset, warp.shared_bytes, bytes);
      break;
    case MemorySpace::kLocal:
      name = "local memory";
      finding.where = Within(name, address, warp.local_bytes, bytes);
      break;
    case MemorySpace::kParam:
      name = "the parameters";
      finding.where = Within("parameters", address, warp.param_bytes, bytes);
      break;
    default:
      finding.where = warp.worker->launch->memory->Describe(address);
  }
  const std::string access =
      fmt::format("A {} of {} byte{}", store ? "store" : "load", bytes, Plural(bytes));
  switch (kind) {
    case FaultKind::kOutOfBounds:
      finding.message = space == MemorySpace::kGlobal ? access + " is outside of every buffer."
                        : space == MemorySpace::kShared
                            ? OutsideOfShared(warp, access, address, bytes)
                            : fmt::format("{} is outside of {}.", access, name);
      break;
    case FaultKind::kMisaligned:
      finding.message = fmt::format("{} in {} is at an address that is not a multiple of {}.",
                                    access, name, bytes);
      break;
    case FaultKind::kReadOnly:
      finding.message =
          access + " writes to memory that the kernel may only read: an input or a constant.";
      break;
    case FaultKind::kForeign:
      finding.message = access + " accesses a buffer that this launch has no pointer to.";
      break;
    case FaultKind::kFreed:
      finding.message = access + " accesses memory that a thread has freed.";
      break;
    case FaultKind::kExited:
      finding.message = fmt::format(
          "{} accesses {}, which has exited: the blocks of a cluster must wait for each other "
          "before they exit.",
          access, name);
      break;
  }
  RecordFault(warp, op->source, std::move(finding));
  return nullptr;
}

void ReportShuffle(Warp& warp, const Op* op, uint32_t named, uint32_t wrong) {
  const uint32_t outside = warp.active & ~named;
  const uint32_t absent = named & ~warp.active;
  std::string message;
  if (wrong != 0) {
    message = fmt::format(
        "{} lane{} read from lanes that do not take part (executing lanes "
        "{:#010x}, mask {:#010x}): the values are undefined.",
        __builtin_popcount(wrong), Plural(static_cast<uint64_t>(__builtin_popcount(wrong))),
        warp.active, named);
  } else if (outside != 0) {
    message =
        fmt::format("Lanes {:#010x} execute a warp instruction whose mask {:#010x} excludes them.",
                    outside, named);
  } else {
    message =
        fmt::format("The mask {:#010x} names lanes {:#010x}, which never arrive.", named, absent);
  }
  records::Finding finding = Describe(warp, op, "shuffle_inactive_lane", FirstLane(warp.active));
  finding.severity = records::Severity::kWarning;
  finding.message = std::move(message);
  finding.undefined = wrong != 0;
  Record(warp, op->source, std::move(finding));
}

void ReportSplitBarrier(Warp& warp, const Op* first, const Op* second) {
  Fault(warp, second, "barrier_divergence",
        fmt::format("Threads of one warp wait at different barriers (lines {} and {}): "
                    "all threads of a block must reach the same __syncthreads.",
                    LineOfOp(warp, first).line, LineOfOp(warp, second).line));
}

void WarnBarrierPlaces(Warp& warp, const Op* first, const Op* second, uint32_t lanes) {
  const int one = LineOfOp(warp, first).line, other = LineOfOp(warp, second).line;
  if (one == other) return;
  Warn(warp, second, "barrier_divergence",
       fmt::format(
           "Warps of a block wait at one barrier from lines {} and {}: all threads of a block "
           "must reach the same __syncthreads.",
           one, other),
       FirstLane(lanes));
}

bool ReportOwnWait(BlockState& block) {
  for (Warp& warp : block.warps) {
    for (int i = 0; i < warp.others; ++i) {
      const Group& group = warp.other[static_cast<size_t>(i)];
      if (group.state != GroupState::kBarrier || group.barrier < kWarpgroupBarrier) continue;
      warp.active = group.mask;
      if (group.barrier == kWarpgroupBarrier) {
        Fault(warp, group.pc - 1, "warpgroup_divergence",
              "This warp waits for wgmma instructions that other warps of its warpgroup do not "
              "execute. All four warps must execute each of them together.");
      } else {
        Fault(warp, group.pc - 1, "deadlock",
              "This warp waits for more tensor memory than the block has free, and no other warp "
              "can free some.");
      }
      return true;
    }
  }
  return false;
}

void ReportDeadlock(ClusterState& cluster) {
  for (const auto& block : cluster.blocks) {
    if (ReportOwnWait(*block)) return;
  }
  for (const auto& block : cluster.blocks) {
    for (Warp& warp : block->warps) {
      if (warp.others == 0) continue;
      const Group& group = warp.other[0];
      const bool barrier = group.state == GroupState::kBarrier;
      warp.active = group.mask;
      Fault(warp, barrier ? group.pc - 1 : group.pc, "deadlock",
            fmt::format("No thread of the {} can continue: {} wait for threads that never arrive.",
                        cluster.several() ? "cluster" : "block", WaitingLines(cluster)));
      return;
    }
  }
}

void ReportBudget(Warp& warp, const char* what, int64_t budget) {
  if (warp.active == 0 && warp.others > 0) warp.active = warp.other[0].mask;
  Fault(warp, warp.pc, "instruction_budget",
        fmt::format("The {} executed more than {} warp instructions and was stopped here: it loops "
                    "forever, or does more work than cupel allows.",
                    what, budget));
}

}  // namespace cupel::emu
