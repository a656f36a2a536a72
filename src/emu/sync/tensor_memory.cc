// Tested by exec/blackwell_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/tensor_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "emu/check/race_checks.h"
#include "emu/check/race_report.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/launch_state.h"
#include "emu/core/op_flags.h"
#include "emu/core/worker.h"

namespace cupel::emu {
namespace {

constexpr uint32_t kGroups = kTensorLanes / 16;

/// "tcgen05.mma"
std::string NameOf(const Warp& warp, const Op* op) {
  const Code& code = *warp.worker->launch->code;
  const std::string& mnemonic = code.statements[code.sources[op->source].statement].mnemonic;
  return mnemonic.substr(0, mnemonic.find('.', mnemonic.find('.') + 1));
}

const char* RemedyFor(TensorCompletion completion) {
  switch (completion) {
    case TensorCompletion::kCommit:
      return "wait for the mbarrier of a tcgen05.commit that follows it";
    case TensorCompletion::kLoadWait:
      return "its warp must execute tcgen05.wait::ld, and the warps synchronise after that";
    case TensorCompletion::kStoreWait:
      return "its warp must execute tcgen05.wait::st, and the warps synchronise after that";
  }
  return "";
}

/// Warps that wait for tensor memory try again.
void WakeAllocations(BlockState& block) {
  for (Warp& warp : block.warps) {
    for (int i = 0; i < warp.others; ++i) {
      Group& group = warp.other[static_cast<size_t>(i)];
      if (group.state != GroupState::kBarrier || group.barrier != kTensorBarrier) continue;
      group.state = GroupState::kRunnable;
      --group.pc;
      block.ready[warp.index] = true;
    }
  }
}

}  // namespace

TensorMemory::TensorMemory(size_t warps, uint32_t poison)
    : cells_(size_t{kTensorColumns} * kTensorLanes, poison),
      operations_(1),
      observed_(warps),
      fenced_(warps),
      poison_(poison) {}

std::optional<uint32_t> TensorMemory::Allocate(const Warp& warp, const Op* op, uint32_t columns) {
  uint32_t first = 0;
  for (size_t i = 0; i < allocations_.size(); ++i) {
    const Allocation& other = allocations_[i];
    if (first + columns <= other.first || first >= other.first + other.columns) continue;
    first = other.first + other.columns;
    i = static_cast<size_t>(-1);  // compare with all again
  }
  if (first + columns > kTensorColumns) return std::nullopt;
  allocations_.push_back({first, columns, op, warp.index});
  std::fill_n(Column(first), size_t{columns} * kTensorLanes, poison_);
  if (!uses_.empty()) std::fill_n(uses_.begin() + first * kGroups, columns * kGroups, Uses{});
  return first;
}

bool TensorMemory::Free(Warp& warp, const Op* op, uint32_t address, uint32_t columns) {
  const auto found = std::find_if(
      allocations_.begin(), allocations_.end(),
      [&](const Allocation& other) { return other.first == address && other.columns == columns; });
  if (found == allocations_.end()) {
    Fault(warp, op, "tensor_allocation",
          fmt::format("The kernel frees {} columns at address {:#x} of tensor memory, which "
                      "tcgen05.alloc has not returned for as many columns, or which are free.",
                      columns, address));
    return false;
  }
  // The freed cells are as good as overwritten.
  Issue(warp, op, 0, TensorCompletion::kStoreWait);
  operations_.back().frees = true;
  if (!Write(warp, {(1u << kGroups) - 1, found->first, found->columns})) return false;
  allocations_.erase(found);
  WakeAllocations(*warp.block);
  return true;
}

bool TensorMemory::CheckFreed(Warp& last) const {
  if (allocations_.empty()) return true;
  const Allocation& kept = allocations_.front();
  Warp& warp = last.block->warps[kept.warp];
  Fault(warp, kept.op, "tensor_allocation",
        fmt::format("The block ends before it frees {} columns of tensor memory: execute "
                    "tcgen05.dealloc.",
                    kept.columns),
        0);
  last.stop = Stop::kFault;
  return false;
}

TensorMemory::Source TensorMemory::SourceOf(const Operation& operation) {
  const bool by_thread = operation.completion == TensorCompletion::kCommit;
  return {operation.completion, by_thread ? operation.thread : operation.warp()};
}

uint32_t TensorMemory::Issue(const Warp& warp, const Op* op, int lane,
                             TensorCompletion completion) {
  if (!warp.checking && operations_.size() > 1) operations_.pop_back();  // only the last one
  Operation operation;
  operation.op = op;
  operation.thread = warp.index * kLanes + static_cast<uint32_t>(lane);
  operation.completion = completion;
  if (warp.checking) {
    BlockClocks& clocks = warp.block->checker->clocks();
    operation.clock = clocks.of(warp.index).now;
    // Later events of the warp have another time. The lane knows the reads of its operands, which
    // have stamps of all lanes.
    clocks.Sync(warp.index, 1u << lane);
    if (uses_.empty()) uses_.resize(size_t{kTensorColumns} * kGroups);
  }
  operations_.push_back(operation);
  const auto number = static_cast<uint32_t>(operations_.size() - 1);
  if (completion == TensorCompletion::kCommit) last_[operation.thread] = number;
  return number;
}

bool TensorMemory::CheckAllocated(Warp& warp, const Operation& mine,
                                  const TensorRegion& region) const {
  uint32_t column = region.first;
  const uint32_t end = region.first + region.columns;
  while (column < end) {
    const auto found =
        std::find_if(allocations_.begin(), allocations_.end(), [&](const Allocation& allocation) {
          return allocation.first <= column && column < allocation.first + allocation.columns;
        });
    if (found == allocations_.end()) {
      Fault(warp, mine.op, "out_of_bounds",
            fmt::format("This instruction accesses columns {} to {} of tensor memory. Column {} is "
                        "not allocated.",
                        region.first, end - 1, column),
            static_cast<int>(mine.thread % kLanes));
      return false;
    }
    column = found->first + found->columns;
  }
  return true;
}

TensorMemory::Order TensorMemory::OrderOf(const Warp& warp, uint32_t earlier,
                                          const Operation& mine) const {
  const Operation& other = operations_[earlier];
  const BlockClocks& clocks = warp.block->checker->clocks();
  const uint32_t lane = mine.thread % kLanes;
  const bool is_own = other.warp() == warp.index;
  const bool by_pipeline = other.completion == TensorCompletion::kCommit;
  if (by_pipeline && mine.completion == TensorCompletion::kCommit) {
    const bool known = is_own || clocks.Before(other.warp(), other.clock, warp.index, lane);
    return known ? Order::kOrdered : Order::kNotSynchronized;
  }
  if (is_own && other.completion == TensorCompletion::kStoreWait &&
      mine.completion == TensorCompletion::kStoreWait) {
    return Order::kOrdered;
  }
  Order best = Order::kInProgress;
  for (uint32_t observer = 0; observer < observed_.size(); ++observer) {
    const auto source = observed_[observer].find(SourceOf(other));
    if (source == observed_[observer].end()) continue;
    const auto first = std::lower_bound(
        source->second.begin(), source->second.end(), earlier,
        [](const Observation& one, uint32_t number) { return one.number < number; });
    if (first == source->second.end()) continue;
    if (observer != warp.index && !clocks.Before(observer, first->clock, warp.index, lane)) {
      if (best == Order::kInProgress) best = Order::kNotSynchronized;
      continue;
    }
    // PTX also wants the fence in other cases, which work without it on all known GPUs.
    const bool needs_fence =
        by_pipeline && !mine.frees && fenced_[warp.index][observer] <= first->clock;
    if (!needs_fence) return Order::kOrdered;
    best = Order::kNotFenced;
  }
  return best;
}

/// The last operation and `earlier` access a column, and at least one of them writes it. `ordered`
/// is the last operation that is known to be ordered before it.
bool TensorMemory::CheckOrder(Warp& warp, uint32_t earlier, uint32_t column, bool writes,
                              bool wrote, uint32_t* ordered) const {
  if (earlier == 0 || earlier == *ordered || earlier + 1 == operations_.size()) return true;
  const Operation& mine = operations_.back();
  const Operation& other = operations_[earlier];
  const Order order = OrderOf(warp, earlier, mine);
  const auto lane = static_cast<int>(mine.thread % kLanes);
  const std::string what = fmt::format(
      "This instruction {} column {} of tensor memory, which the {}{} {}",
      mine.frees ? "frees"
      : writes   ? "writes"
                 : "reads",
      column, NameOf(warp, other.op), OfLine(warp, other.op), wrote ? "writes" : "reads");
  switch (order) {
    case Order::kOrdered:
      break;
    case Order::kNotFenced:
      Warn(warp, mine.op, "missing_tensor_fence",
           what + ". The wait for it must be followed by tcgen05.fence::after_thread_sync.", lane);
      break;
    case Order::kInProgress:
      Fault(
          warp, mine.op, "missing_tensor_wait",
          fmt::format("{} and which is still in progress: {}.", what, RemedyFor(other.completion)),
          lane);
      return false;
    case Order::kNotSynchronized:
      Fault(warp, mine.op, "missing_tensor_wait",
            fmt::format("{}, and nothing orders the two threads: {}.", what,
                        other.completion == TensorCompletion::kCommit &&
                                mine.completion != TensorCompletion::kCommit
                            ? RemedyFor(other.completion)
                            : "the warps must synchronise between the two"),
            lane);
      return false;
  }
  *ordered = earlier;
  return true;
}

bool TensorMemory::Access(Warp& warp, const TensorRegion& region, bool write) {
  const Operation mine = operations_.back();
  if (!CheckAllocated(warp, mine, region)) return false;
  if (!warp.checking) return true;
  const auto number = static_cast<uint32_t>(operations_.size() - 1);
  const bool is_product = mine.completion == TensorCompletion::kCommit;
  std::array<std::array<uint32_t, 3>, kGroups> ordered{};
  bool has_warned = write;
  for (uint32_t column = region.first; column < region.first + region.columns; ++column) {
    uint32_t unwritten = 0;
    for (uint32_t groups = region.groups; groups != 0; groups &= groups - 1) {
      const auto group = static_cast<uint32_t>(__builtin_ctz(groups));
      Uses& uses = uses_[column * kGroups + group];
      auto& known = ordered[group];
      if (!CheckOrder(warp, uses.writer, column, write, true, &known[0])) return false;
      if (!write) {
        if (uses.writer == 0) unwritten |= 1u << group;
        (is_product ? uses.product : uses.loader) = number;
        continue;
      }
      if (!CheckOrder(warp, uses.product, column, true, false, &known[1]) ||
          !CheckOrder(warp, uses.loader, column, true, false, &known[2])) {
        return false;
      }
      uses = {number, 0, 0};
    }
    // Loads of 32 lanes also read those that products of 64 lines do not use.
    if (has_warned || unwritten == 0 || (!is_product && unwritten != region.groups)) continue;
    has_warned = true;
    Warn(
        warp, mine.op, "uninitialized_tensor",
        fmt::format("This instruction reads column {} of tensor memory, which nothing has written.",
                    column),
        static_cast<int>(mine.thread % kLanes));
  }
  return true;
}

void TensorMemory::ReadsShared(const Warp& warp, const std::vector<TensorMatrix>& matrices) {
  Reading reading;
  reading.number = static_cast<uint32_t>(operations_.size() - 1);
  reading.thread = operations_.back().thread;
  reading.matrices = matrices;
  reading.seen = warp.block->checker->clocks().of(warp.index).seen;
  reading.seen[warp.index] = operations_.back().clock + 1;
  readings_.push_back(std::move(reading));
}

uint32_t TensorMemory::LastOf(uint32_t thread) const {
  const auto found = last_.find(thread);
  return found == last_.end() ? 0 : found->second;
}

bool TensorMemory::Complete(Warp& waiter, uint32_t thread, uint32_t number) {
  const HandlerTable& handlers = *waiter.worker->launch->code->handlers;
  BlockClocks& clocks = waiter.block->checker->clocks();
  bool fine = true;
  uint32_t first = 0;
  std::erase_if(readings_, [&](const Reading& reading) {
    if (reading.thread != thread || reading.number > number) return false;
    const Operation& operation = operations_[reading.number];
    if (first == 0) first = reading.number;
    clocks.Learn(waiter.index, operation.warp(), operation.clock);
    for (const TensorMatrix& matrix : reading.matrices) {
      fine = fine && ForEachPiece(matrix, [&](const uint32_t* offsets, uint32_t active) {
               return handlers.stamp_proxied(waiter, operation.op, offsets, active,
                                             reading.seen.data()) ||
                      waiter.block->checker->CheckUnchanged(waiter, operation.op, active, 16,
                                                            offsets, reading.seen.data());
             });
    }
    return true;
  });
  if (first == 0) return true;
  const auto [reader, is_new] = readers_[thread].try_emplace(waiter.index);
  if (is_new) reader->second.first = first;
  reader->second.clock = clocks.of(waiter.index).now;
  clocks.Sync(waiter.index, waiter.active);
  return fine;
}

void TensorMemory::Observe(const Warp& warp, Source source, uint32_t number) {
  std::vector<Observation>& known = observed_[warp.index][source];
  if (!known.empty() && known.back().number >= number) return;
  known.push_back({number, warp.block->checker->clocks().of(warp.index).now});
}

void TensorMemory::Observe(const Warp& warp, uint32_t thread, uint32_t number) {
  Observe(warp, Source{TensorCompletion::kCommit, thread}, number);
  Follow(warp, thread, number);
}

void TensorMemory::Follow(const Warp& warp, uint32_t thread, uint32_t number) {
  BlockClocks& clocks = warp.block->checker->clocks();
  clocks.Learn(warp.index, thread / kLanes, operations_[number].clock);
  for (const auto& [other, reader] : readers_[thread]) {
    if (reader.first > number) continue;
    if (other == warp.index) {
      clocks.Sync(warp.index, warp.active);
    } else {
      clocks.Learn(warp.index, other, reader.clock);
    }
  }
}

void TensorMemory::Wait(const Warp& warp, TensorCompletion completion) {
  if (!warp.checking) return;
  Observe(warp, Source{completion, warp.index}, static_cast<uint32_t>(operations_.size() - 1));
}

void TensorMemory::Fence(const Warp& warp) {
  if (!warp.checking) return;
  BlockClocks& clocks = warp.block->checker->clocks();
  clocks.Sync(warp.index, 0);
  fenced_[warp.index] = clocks.of(warp.index).seen;
  fenced_[warp.index][warp.index] = clocks.of(warp.index).now;
}

}  // namespace cupel::emu
