// Reports which warps wait for what, when no warp makes progress.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>

#include "emu/check/report.h"
#include "emu/core/block_state.h"
#include "emu/core/code.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/stall/loop_effects.h"
#include "emu/stall/stall.h"
#include "emu/sync/async.h"

namespace cupel::emu {
namespace {

constexpr int64_t kLeastNegative = -1'000'000;

/// Chooses the loop to report. Loops that are certain to be endless come before those that may give
/// up, and loops that wait come before those that only run. The first of the best is chosen.
std::pair<size_t, const LoopingWarp*> Choose(std::span<const LoopScan> scans) {
  std::pair<size_t, const LoopingWarp*> best{0, nullptr};
  const auto rank = [](const LoopingWarp& loop) {
    return (loop.kind == LoopKind::kStuck ? 2 : 0) + (loop.waits ? 1 : 0);
  };
  for (size_t b = 0; b < scans.size(); ++b) {
    for (const LoopingWarp& loop : scans[b].loops) {
      if (best.second == nullptr || rank(loop) > rank(*best.second)) best = {b, &loop};
    }
  }
  return best;
}

bool IsPhase(const Warp& warp, const Op* op) {
  const Code& code = *warp.worker->launch->code;
  return code.statements[code.sources[op->source].statement].op == ptx::Opcode::kMbarrier;
}

/// "the mbarrier at shared memory + 8 bytes", "buffer 1 + 128 bytes".
std::string PlaceRead(const Warp& warp, const LoopingWarp& loop, Place* place) {
  if (IsPhase(warp, loop.at)) {
    *place = PlaceOf(warp, MemorySpace::kShared, 0, loop.named, 8);
    place->host = nullptr;  // opaque
    return place->Describe(warp);
  }
  const AccessShape shape = AccessShape::Unpack(loop.at->aux);
  *place = PlaceOf(warp, shape.space, __builtin_ctz(loop.lanes), loop.named, shape.element_bytes);
  return place->Describe(warp);
}

std::string ValueIn(const Place& place) {
  if (place.host == nullptr || place.bytes > 8) return "";
  uint64_t value = 0;
  std::memcpy(&value, place.host, place.bytes);
  // Small negative numbers are shown as such, because loads do not define the sign.
  const int unused = 64 - 8 * static_cast<int>(place.bytes);
  const int64_t as_signed = static_cast<int64_t>(value << unused) >> unused;
  if (as_signed < 0 && as_signed >= kLeastNegative) {
    return fmt::format(", and finds {}", as_signed);
  }
  return fmt::format(", and finds {}", value);
}

/// Describes the other warps and blocks.
std::string DescribeOthers(std::span<BlockState* const> blocks, std::span<const LoopScan> scans) {
  size_t looping = 0, waiting = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    looping += scans[b].loops.size();
    for (const Warp& warp : blocks[b]->warps) waiting += warp.live != 0;
  }
  waiting -= looping;
  std::string text;
  if (looping > 1) text += fmt::format("{} warps loop", looping);
  if (waiting != 0) {
    text += fmt::format("{}{} wait{} at barriers", text.empty() ? "" : ", ",
                        text.empty() ? fmt::format("{} warp{}", waiting, waiting == 1 ? "" : "s")
                                     : std::to_string(waiting),
                        waiting == 1 ? "s" : "");
  }
  if (blocks.size() > 1) text += fmt::format(" in {} blocks", blocks.size());
  return text;
}

std::string NotStarted(size_t running, uint64_t not_started) {
  if (not_started == 0) return "";
  return fmt::format(
      " The device holds {} block{} of this launch at a time, all of which wait: {} more can never "
      "start.",
      running, running == 1 ? "" : "s", not_started);
}

}  // namespace

void ReportStall(std::span<BlockState* const> blocks, std::span<const LoopScan> scans,
                 uint64_t not_started, int64_t patience) {
  for (BlockState* block : blocks) {
    if (ReportOwnWait(*block)) return;
  }
  const auto [index, loop] = Choose(scans);
  if (loop == nullptr) return;
  BlockState& block = *blocks[index];
  Warp& warp = block.warps[loop->warp];
  records::Finding finding = Describe(
      warp, loop->at, loop->waits ? "deadlock" : "instruction_budget", __builtin_ctz(loop->lanes));
  const std::string description = DescribeOthers(blocks, scans);
  const std::string others = description.empty() ? "" : fmt::format(" ({})", description);
  if (!loop->waits) {
    finding.message = fmt::format(
        "This loop never ends: the values that its branches depend on no longer change{}.{}",
        others, NotStarted(blocks.size(), not_started));
  } else {
    Place place;
    finding.where = PlaceRead(warp, *loop, &place);
    const bool is_phase = IsPhase(warp, loop->at);
    finding.message = fmt::format("This loop {} {} repeatedly{}; ",
                                  is_phase ? "polls a phase of the mbarrier at" : "reads",
                                  finding.where, ValueIn(place));
    if (patience == 0) {
      finding.message += fmt::format("no running thread can {}{}.",
                                     is_phase ? "complete it" : "change it", others);
    } else {
      finding.message += fmt::format(
          "no thread has changed memory in {} million warp instructions, and all running warps "
          "wait in this way{}.",
          patience / 1'000'000, others);
      finding.code = "instruction_budget";
    }
    const bool plain = !is_phase && !AccessShape::Unpack(loop->at->aux).is_volatile &&
                       !AccessShape::Unpack(loop->at->aux).is_atomic;
    if (plain && place.space == MemorySpace::kGlobal && not_started == 0 &&
        !warp.worker->launch->in_order && warp.worker->launch->blocks_to_run > 1) {
      finding.message +=
          " To see what another block writes, read it through volatile or an atomic.";
    }
    finding.message += NotStarted(blocks.size(), not_started);
  }
  RecordFault(warp, loop->at->source, std::move(finding));
}

}  // namespace cupel::emu
