// WorkerPool: timing of judged items, one setting at a time, by any worker with the right device.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/worker_pool_impl.h"

namespace cupel::serve {
namespace {

/// A worker that reports no GPU counts as having its own.
const std::string& GpuOf(const WorkerSlot& slot) {
  return slot.ready.gpu.empty() ? slot.name : slot.ready.gpu;
}

}  // namespace

void WorkerPool::Impl::BeginTiming(size_t index, Timing timing) {
  if (timing.schedule.IsDone()) return Conclude(index, timing.judged, timing.worker);
  timings.emplace(index, std::move(timing));
}

/// The slots whose times are comparable: those with the verdict's device. Slots whose worker was
/// lost less than `patience` ago are included, because it may come back soon.
std::set<size_t> WorkerPool::Impl::AbleToTime(const Timing& timing) const {
  const auto now = std::chrono::steady_clock::now();
  std::set<size_t> able;
  for (const auto& slot : slots) {
    const bool is_there =
        slot->stage == WorkerSlot::Stage::kIdle || slot->stage == WorkerSlot::Stage::kBusy;
    if ((is_there || now - slot->lost_at < options.patience) && !slot->is_given_up &&
        slot->ready.timed && slot->ready.device == timing.judged.device &&
        !timing.refused_by.contains(slot->index)) {
      able.insert(slot->index);
    }
  }
  return able;
}

/// False when no worker can time the item. Workers that are still starting may have its device.
bool WorkerPool::Impl::MayBeTimed(const Timing& timing) const {
  if (!timing.tickets.empty() || !AbleToTime(timing).empty()) return true;
  const bool early = std::chrono::steady_clock::now() - began < options.patience;
  return early && std::ranges::any_of(slots, [](const auto& slot) {
           return !slot->is_given_up && slot->ready.device.empty();
         });
}

/// True if a worker on the slot's GPU is timing the item. A GPU's memory must hold only one of an
/// item's settings at a time.
bool WorkerPool::Impl::IsGpuTiming(const WorkerSlot& slot, size_t index) const {
  return std::ranges::any_of(slots, [&](const auto& other) {
    return other->item == index && other->setting && GpuOf(*other) == GpuOf(slot);
  });
}

void WorkerPool::Impl::DropUntimeable() {
  std::vector<size_t> lost;
  for (const auto& [index, timing] : timings) {
    if (!MayBeTimed(timing)) lost.push_back(index);
  }
  for (const size_t index : lost) {
    JudgeAgain(index, "its verdict is not valid on any remaining machine");
  }
}

/// Gives the worker a setting to time. With `before_judging`, only settings of items that it judged
/// itself, or that no worker has judged or timed in this run. Returns false if there is none.
bool WorkerPool::Impl::HandOutSetting(WorkerSlot& slot, bool before_judging) {
  for (auto& [index, timing] : timings) {
    const auto able = AbleToTime(timing);
    if ((before_judging && timing.judge.value_or(slot.index) != slot.index) ||
        !able.contains(slot.index) || IsGpuTiming(slot, index)) {
      continue;
    }
    const auto setting = timing.schedule.Take(slot.index, able);
    if (!setting) continue;
    auto work = assignment_builder.Prepare(items[index], options.tasks_root);
    if (!work || VerdictMismatch(ExpectedOf(*work), timing.judged.verdict)) {
      JudgeAgain(index, work ? "its kernel has changed" : work.error().message);
      return false;
    }
    work->item.judged.verdict = timing.judged.verdict;
    work->setting = timing.settings[*setting];
    Send(slot, index, std::move(*work), setting);
    timing.tickets.insert(slot.ticket);
    if (!timing.judge) {
      timing.judge = slot.index;
      timing.worker = slot.name;
    }
    return true;
  }
  return false;
}

/// Closes the slot's ticket and returns the item's timing. Null if the item has ended meanwhile or
/// is being judged again.
Timing* WorkerPool::Impl::GiveTicketBack(const WorkerSlot& slot, size_t index) {
  const auto found = timings.find(index);
  if (found == timings.end() || found->second.tickets.erase(slot.ticket) == 0) return nullptr;
  return &found->second;
}

void WorkerPool::Impl::TakeTimes(WorkerSlot& slot, size_t index, size_t setting, Done& finished) {
  Timing* const given = GiveTicketBack(slot, index);
  if (given == nullptr) return;
  Timing& timing = *given;
  if (finished.error) {
    return ReportError(index, slot.name, finished.error->message, finished.error->remedy);
  }
  if (finished.is_stale) {
    if (!timing.is_confirmed && timing.tickets.empty()) {
      return JudgeAgain(index, "its verdict is not valid on this machine");
    }
    timing.refused_by.insert(slot.index);
    return timing.schedule.Return(setting);
  }
  timing.is_confirmed = true;
  finished.bench["settings"][0]["worker"] = slot.name;
  timing.judged.timed.push_back(
      {timing.settings[setting], std::move(finished.bench), finished.seconds});
  if (listener->timed) listener->timed(items[index].id, timing.judged.timed.back());
  timing.schedule.Finish(setting);
  if (!timing.schedule.IsDone()) return;
  const Timing whole = std::move(timings.extract(index).mapped());
  Conclude(index, whole.judged, whole.worker);
}

/// If the verdict is from an earlier run, this does not count as an attempt. If it is from this run
/// it counts, so that retries end.
void WorkerPool::Impl::JudgeAgain(size_t index, const std::string& why) {
  const auto node = timings.extract(index);
  const Timing& was = node.mapped();
  if (listener->withdrawn) listener->withdrawn(items[index].id);
  if (!was.is_confirmed) {
    schedule->Return(index);
  } else if (!schedule->Lose(index, was.judge.value_or(slots.size()), why)) {
    return ReportAttempts(index, *schedule, index, was.worker);
  }
  Note(fmt::format("{} is judged again: {}", items[index].id, why));
}

}  // namespace cupel::serve
