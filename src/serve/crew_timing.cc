// How a crew times what it has judged: a setting at a time, by whoever is able to.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/crew_impl.h"

namespace cupel::serve {
namespace {

/// Who names none has one of its own.
const std::string& GpuOf(const Place& place) {
  return place.ready.gpu.empty() ? place.name : place.ready.gpu;
}

}  // namespace

void Crew::Impl::BeginTiming(size_t index, Timing timing) {
  if (timing.schedule.IsDone()) return Conclude(index, timing.judged, timing.worker);
  timings.emplace(index, std::move(timing));
}

/// Places whose numbers are comparable with those of the others. One that was lost just now may be
/// back soon.
std::set<size_t> Crew::Impl::AbleToTime(const Timing& timing) const {
  const auto now = std::chrono::steady_clock::now();
  std::set<size_t> able;
  for (const auto& place : places) {
    const bool is_there =
        place->stage == Place::Stage::kIdle || place->stage == Place::Stage::kBusy;
    if ((is_there || now - place->lost_at < options.patience) && !place->is_given_up &&
        place->ready.timed && place->ready.device == timing.judged.device &&
        !timing.refused_by.contains(place->index)) {
      able.insert(place->index);
    }
  }
  return able;
}

/// While workers start, nobody knows what devices they have.
bool Crew::Impl::MayBeTimed(const Timing& timing) const {
  if (!timing.tickets.empty() || !AbleToTime(timing).empty()) return true;
  const bool early = std::chrono::steady_clock::now() - began < options.patience;
  return early && std::ranges::any_of(places, [](const auto& place) {
           return !place->is_given_up && place->ready.device.empty();
         });
}

/// Its memory is for one of an item's settings at a time.
bool Crew::Impl::IsGpuAtIt(const Place& place, size_t index) const {
  return std::ranges::any_of(places, [&](const auto& other) {
    return other->item == index && other->setting && GpuOf(*other) == GpuOf(place);
  });
}

void Crew::Impl::DropUntimeable() {
  std::vector<size_t> lost;
  for (const auto& [index, timing] : timings) {
    if (!MayBeTimed(timing)) lost.push_back(index);
  }
  for (const size_t index : lost) JudgeAnew(index, "its verdict stands on no machine that is left");
}

/// A setting to be timed; before judging, only of items that this worker has judged or that nobody
/// has in this run. False: none.
bool Crew::Impl::HandOutSetting(Place& place, bool before_judging) {
  for (auto& [index, timing] : timings) {
    const auto able = AbleToTime(timing);
    if ((before_judging && timing.judge.value_or(place.index) != place.index) ||
        !able.contains(place.index) || IsGpuAtIt(place, index)) {
      continue;
    }
    const auto setting = timing.schedule.Take(place.index, able);
    if (!setting) continue;
    auto work = errands.Prepare(items[index], options.tasks_root);
    if (!work || WhyNotThis(ExpectedOf(*work), timing.judged.verdict)) {
      JudgeAnew(index, work ? "its kernel is another now" : work.error().message);
      return false;
    }
    work->item.judged.verdict = timing.judged.verdict;
    work->setting = timing.settings[*setting];
    Send(place, index, std::move(*work), setting);
    timing.tickets.insert(place.ticket);
    if (!timing.judge) {
      timing.judge = place.index;
      timing.worker = place.name;
    }
    return true;
  }
  return false;
}

/// What the place was timing. Null: the item is over meanwhile, or is judged anew.
Timing* Crew::Impl::GiveTicketBack(const Place& place, size_t index) {
  const auto found = timings.find(index);
  if (found == timings.end() || found->second.tickets.erase(place.ticket) == 0) return nullptr;
  return &found->second;
}

void Crew::Impl::TakeTimes(Place& place, size_t index, size_t setting, Done& finished) {
  Timing* const given = GiveTicketBack(place, index);
  if (given == nullptr) return;
  Timing& timing = *given;
  if (finished.error) {
    return TellError(index, place.name, finished.error->message, finished.error->remedy);
  }
  if (finished.is_stale) {
    if (!timing.stands && timing.tickets.empty()) {
      return JudgeAnew(index, "its verdict does not stand here");
    }
    timing.refused_by.insert(place.index);
    return timing.schedule.Return(setting);
  }
  timing.stands = true;
  finished.bench["settings"][0]["worker"] = place.name;
  timing.judged.timed.push_back(
      {timing.settings[setting], std::move(finished.bench), finished.seconds});
  if (listener->timed) listener->timed(items[index].id, timing.judged.timed.back());
  timing.schedule.Finish(setting);
  if (!timing.schedule.IsDone()) return;
  const Timing whole = std::move(timings.extract(index).mapped());
  Conclude(index, whole.judged, whole.worker);
}

/// A verdict of an earlier run that does not stand is nobody's failure; one of this run counts as
/// an attempt, so that there is an end.
void Crew::Impl::JudgeAnew(size_t index, const std::string& why) {
  const auto node = timings.extract(index);
  const Timing& was = node.mapped();
  if (listener->withdrawn) listener->withdrawn(items[index].id);
  if (!was.stands) {
    schedule->Return(index);
  } else if (!schedule->Lose(index, was.judge.value_or(places.size()), why)) {
    return TellAttempts(index, *schedule, index, was.worker);
  }
  Note(fmt::format("{} is judged anew: {}", items[index].id, why));
}

}  // namespace cupel::serve
