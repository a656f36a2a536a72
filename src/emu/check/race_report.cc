// SPDX-License-Identifier: Apache-2.0
#include "emu/check/race_report.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <span>

#include "emu/check/race_trial.h"
#include "emu/check/report.h"
#include "emu/core/code.h"
#include "emu/core/launch_request.h"
#include "emu/core/launch_state.h"
#include "emu/core/op.h"
#include "emu/core/race_stamp.h"
#include "emu/core/slots.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {

namespace {

constexpr size_t kMostStored = 32;  // bytes of a lane

std::string Missing(const RaceReport& report, bool both_write) {
  if (report.in_cluster) {
    return fmt::format(
        "nothing orders the two blocks{}: a cluster barrier (cluster.sync) is missing.",
        both_write && !report.harmless ? ", so the final value is undefined" : "");
  }
  if (report.of_block_scope) {
    return "nothing orders the two blocks: an operation of block scope (atomicAdd_block, .cta) is "
           "not "
           "atomic for other blocks.";
  }
  if (both_write && report.harmless) return "nothing orders the two writes.";
  if (both_write) return "nothing orders the two writes, so the final value is undefined.";
  if (report.other_block) return "nothing orders the two blocks.";
  return fmt::format("nothing orders the two accesses: a {} is missing.",
                     report.same_warp ? "__syncwarp or __syncthreads" : "__syncthreads");
}

/// True if one of the two accesses is a plain read, whose value may be unused. Reads that the
/// stamps know are plain or by the asynchronous proxy.
bool IsOfPlainRead(AccessKind kind, const RaceReport& report) {
  if (report.in_cluster) return false;
  if (report.other_wrote) return !kind.store && !kind.strong() && !kind.proxied;
  return kind.store;
}

/// Asks the launch's trial about a race of a plain read. True if the race does not end the launch.
bool IsTolerated(Warp& warp, const Op* op, uint32_t lane, AccessKind kind,
                 const RaceReport& report) {
  if (!IsOfPlainRead(kind, report)) return false;
  RaceTrial* trial = warp.worker->launch->request->trial;
  if (trial != nullptr) return trial->Note(warp, op, lane, !kind.store, report.place);
  warp.worker->read_race = true;
  return false;
}

constexpr const char* kUnused = " The value that was read is not used.";

}  // namespace

bool Report(Warp& warp, const Op* op, uint32_t lane, AccessKind kind, const RaceReport& report) {
  if (Suspicion& suspicion = warp.worker->suspicion;
      suspicion.finding && suspicion.place == report.place && suspicion.is_unwritten) {
    // An earlier read found this place unwritten, so the two accesses are a race.
    records::Finding finding = std::move(*suspicion.finding);
    suspicion.finding.reset();
    finding.code = report.code;
    finding.message =
        fmt::format("{}, which thread {}{} writes at line {}, and {}", suspicion.reads,
                    warp.index * kLanes + lane, report.other_block ? " of another block" : "",
                    LineOfId(warp, LineId(warp, op)), Missing(report, false));
    if (IsTolerated(warp, op, lane, kind, report)) {
      finding.message += kUnused;
      RecordWarning(warp, suspicion.source, std::move(finding));
      return true;
    }
    RecordFault(warp, suspicion.source, std::move(finding));
    return false;
  }
  const char* verb = kind.atomic ? "updates" : (kind.store ? "writes" : "reads");
  const std::string at =
      report.other_line > 0 ? fmt::format(" at line {}", report.other_line) : std::string();
  std::string message =
      fmt::format("Thread {} {} {}, which {} {}{}, and ", warp.index * kLanes + lane, verb,
                  report.memory, report.other, report.other_wrote ? "wrote" : "read", at);
  message += Missing(report, kind.store && report.other_wrote && !kind.atomic);
  if (report.mixed) {
    message += " An atomic read would be safe too.";
    Warn(warp, op, report.code, message, static_cast<int>(lane), report.where);
    return true;
  }
  if (report.harmless) {
    message += " It stores the value that is there already, so the result is the same.";
    Warn(warp, op, report.code, message, static_cast<int>(lane), report.where);
    return true;
  }
  if (IsTolerated(warp, op, lane, kind, report)) {
    Warn(warp, op, report.code, message + kUnused, static_cast<int>(lane), report.where);
    return true;
  }
  Fault(warp, op, report.code, message, static_cast<int>(lane), report.where);
  return false;
}

void Suspect(Warp& warp, const Op* op, uint32_t lane, EarlyRead read) {
  Suspicion& suspicion = warp.worker->suspicion;
  if (suspicion.finding) return;
  records::Finding finding = Describe(warp, op, read.code, static_cast<int>(lane));
  finding.message = read.reads + read.why;
  finding.where = std::move(read.where);
  suspicion.finding = std::move(finding);
  suspicion.is_unwritten = read.is_unwritten;
  suspicion.reads = std::move(read.reads);
  suspicion.source = op->source;
  suspicion.place = read.place;
}

void WarnLockstep(Warp& warp, const Op* op, uint32_t before, uint32_t now) {
  Warn(
      warp, op, "missing_syncwarp",
      fmt::format("Thread {} relies on thread {} of its warp having run first: volatile alone does "
                  "not order them. Add a __syncwarp.",
                  now, before));
}

uint32_t LineId(const Warp& warp, const Op* op) {
  const Code& code = *warp.worker->launch->code;
  return op->source < code.line_ids.size() ? code.line_ids[op->source] : kLineIds - 1;
}

int LineOfId(const Warp& warp, uint32_t id) {
  const Code& code = *warp.worker->launch->code;
  return id < code.line_of_id.size() ? code.line_of_id[id] : 0;
}

std::string OfLine(const Warp& warp, const Op* op) {
  const int line = LineOfId(warp, LineId(warp, op));
  return line > 0 ? fmt::format(" of line {}", line) : std::string();
}

namespace {

/// Of a store: the `bytes` bytes that `lane` stores; null if they are not known.
const std::byte* ValueOf(const Warp& warp, const Op* op, AccessKind kind, uint32_t lane,
                         uint32_t bytes, std::span<std::byte> room) {
  if (kind.stored != nullptr) return kind.stored + size_t{lane} * bytes;
  if (!kind.plain || bytes > room.size()) return nullptr;
  StoredValue(warp, op, static_cast<int>(lane), room.data());
  return room.data();
}

}  // namespace

bool StoresSameValue(const Warp& warp, const Op* op, AccessKind kind, uint32_t lane,
                     const std::byte* host, uint32_t bytes) {
  std::array<std::byte, kMostStored> room;
  const std::byte* value = ValueOf(warp, op, kind, lane, bytes, room);
  return value != nullptr && std::memcmp(value, host, bytes) == 0;
}

void CompareStores(Warp& warp, const Op* op, AccessKind kind, uint32_t lane, uint32_t other,
                   uint32_t bytes) {
  std::array<std::byte, kMostStored> rooms[2];
  const std::byte* mine = ValueOf(warp, op, kind, lane, bytes, rooms[0]);
  const std::byte* before = ValueOf(warp, op, kind, other, bytes, rooms[1]);
  if (mine == nullptr || before == nullptr || std::memcmp(mine, before, bytes) == 0) return;
  Warn(warp, op, "store_conflict",
       fmt::format("Lanes {} and {} of a warp store different values to the same address, so the "
                   "final value is undefined.",
                   other, lane),
       static_cast<int>(lane));
}

}  // namespace cupel::emu
