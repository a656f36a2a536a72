// What a crew says to its workers, and what it makes of what they say.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "report/bench_parts.h"
#include "serve/crew_impl.h"
#include "serve/identity.h"

namespace cupel::serve {
namespace {

constexpr int kMostErrors = 3;  // of one worker in a row

}  // namespace

void Crew::Impl::HandOut(Place& place) {
  if (place.stage != Place::Stage::kIdle || !schedule) return;
  if (HandOutSetting(place, true)) return;
  while (const auto index = schedule->Take(place.index, Usable())) {
    const Item& item = items[*index];
    auto work = errands.Prepare(item, options.tasks_root);
    if (!work) {
      TellError(*index, "", work.error().message, work.error().remedy);
      continue;
    }
    return Send(place, *index, std::move(*work), std::nullopt);
  }
  HandOutSetting(place, false);
}

void Crew::Impl::Send(Place& place, size_t index, Assignment work, std::optional<size_t> setting) {
  work.ticket = ++last_ticket;
  place.item = index;
  place.setting = setting;
  place.ticket = work.ticket;
  place.expected = ExpectedOf(work);
  place.item_began = std::chrono::steady_clock::now();
  place.stage = Place::Stage::kBusy;
  place.link->Send(work);
}

void Crew::Impl::TakeMessage(Place& place, FromWorker& message) {
  const int64_t who = place.link_id;
  waits_unheard = false;
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (const auto refusal = WhyNot(ours, *hello)) {
      place.is_given_up = true;  // it will not be another by being started again
      return Lost(place, refusal->ToString());
    }
    if (!place.is_local) place.name = fmt::format("{} {}", hello->host, place.index);
    place.link->Send(place.setup);
    place.stage = Place::Stage::kPreparing;
  } else if (auto* ready = std::get_if<Ready>(&message)) {
    if (place.stage != Place::Stage::kPreparing) return Lost(place, "it was ready out of turn");
    place.ready = std::move(*ready);
    place.failed_starts = 0;
    place.stage = Place::Stage::kIdle;
  } else if (const auto* failed = std::get_if<Failed>(&message)) {
    place.is_given_up =
        failed->error.code == ErrorCode::kInternal || !IsOfThatMachine(failed->error);
    Lost(place, failed->error.ToString());
  } else if (const auto* alive = std::get_if<Alive>(&message)) {
    if (listener != nullptr && listener->progress && alive->ticket == place.ticket && place.item) {
      const std::string& id = items[*place.item].id;
      listener->progress(place.index, alive->total > 0
                                          ? fmt::format("{}: {} ({} of {})", id, alive->stage,
                                                        alive->done, alive->total)
                                          : fmt::format("{}: {}", id, alive->stage));
    }
  } else if (auto* finished = std::get_if<Done>(&message)) {
    TakeDone(place, *finished);
  } else if (auto* open = std::get_if<OpenCases>(&message)) {
    const task::Task* task = place.item ? errands.TaskOf(items[*place.item]) : nullptr;
    if (open->ticket != place.ticket || task == nullptr) return;  // of an item that is over
    desk.Open(who, std::move(*open), *task);
  } else if (const auto* next = std::get_if<NextCase>(&message)) {
    desk.Next(who, next->stream);
  } else if (const auto* close = std::get_if<CloseCases>(&message)) {
    place.files.erase(close->stream);
    desk.Close(who, close->stream);
  } else if (const auto* fetch = std::get_if<Fetch>(&message)) {
    place.link->Send(ChunkOf(place, *fetch));
  }
}

void Crew::Impl::TakeDone(Place& place, Done& finished) {
  if (!place.item || finished.ticket != place.ticket) {
    return Note(fmt::format("{}: a second result for the same work is dropped", place.name));
  }
  if (finished.error && finished.error->code == ErrorCode::kCancelled) {
    return Lost(place, "it was asked to end");
  }
  if (!finished.error) {
    if (auto wrong = WhyNot(place.expected, finished)) return Lost(place, *wrong);
  }
  place.stage = Place::Stage::kIdle;
  if (finished.error && IsOfThatMachine(*finished.error)) {
    const std::string why = finished.error->ToString();
    LoseItem(place, why);
    if (++place.errors_in_a_row >= kMostErrors) Lost(place, why);
    return;
  }
  place.errors_in_a_row = 0;
  const size_t index = *std::exchange(place.item, std::nullopt);
  if (const auto setting = std::exchange(place.setting, std::nullopt)) {
    TakeTimes(place, index, *setting, finished);
  } else {
    TakeVerdict(place, index, finished);
  }
}

void Crew::Impl::TakeVerdict(Place& place, size_t index, Done& finished) {
  if (finished.error) {
    return TellError(index, place.name, finished.error->message, finished.error->remedy);
  }
  Judgement judged;
  judged.verdict = std::move(finished.verdict);
  judged.device = place.ready.device;
  judged.cases = place.ready.cases;
  judged.seconds = finished.seconds;
  if (!items[index].timed || !place.ready.timed || report::SettingsToTime(judged.verdict).empty()) {
    return Conclude(index, judged, place.name);
  }
  if (listener->judged) listener->judged(items[index].id, judged);
  Timing timing(std::move(judged), options.most_attempts);
  timing.judge = place.index;
  timing.worker = place.name;
  timing.stands = true;
  BeginTiming(index, std::move(timing));
}

void Crew::Impl::TakeAnswers() {
  for (CaseDesk::Answer& answer : desk.Collect()) {
    for (const auto& place : places) {
      if (!place->link || place->link_id != answer.who) continue;
      if (!answer.answer.sha256.empty()) {
        place->files.insert_or_assign(answer.answer.stream,
                                      SentFile{answer.answer.sha256, std::move(answer.file)});
      }
      place->link->Send(answer.answer);
    }
  }
}

void Crew::Impl::LoseItem(Place& place, const std::string& why) {
  if (!place.item || !schedule) return;
  const size_t index = *std::exchange(place.item, std::nullopt);
  const auto setting = std::exchange(place.setting, std::nullopt);
  Schedule* of = &*schedule;
  std::string what = items[index].id;
  if (setting) {
    Timing* const timing = GiveTicketBack(place, index);
    if (timing == nullptr) return;
    of = &timing->schedule;
    what = fmt::format("timing {} at {}", what, timing->settings[*setting]);
  }
  if (of->Lose(setting.value_or(index), place.index, why)) {
    if (Usable().empty()) return;
    return Note(fmt::format("{} is tried again; {} did not finish it: {}", what, place.name, why));
  }
  TellAttempts(index, *of, setting.value_or(index), place.name);
}

void Crew::Impl::Conclude(size_t index, const Judgement& judged, const std::string& worker) {
  schedule->Finish(index);
  Outcome outcome;
  outcome.item = items[index].id;
  outcome.verdict = judged.verdict;
  outcome.bench = BenchOf(judged, items[index].kernel.filename().string());
  outcome.worker = worker;
  outcome.cases = judged.cases;
  outcome.seconds = judged.seconds;
  for (const Timed& timed : judged.timed) outcome.seconds += timed.seconds;
  listener->done(std::move(outcome));
}

void Crew::Impl::TellError(size_t index, const std::string& worker, std::string error,
                           std::string remedy) {
  timings.erase(index);
  schedule->Finish(index);
  Outcome outcome;
  outcome.item = items[index].id;
  outcome.worker = worker;
  outcome.error = std::move(error);
  outcome.remedy = std::move(remedy);
  listener->done(std::move(outcome));
}

void Crew::Impl::TellAttempts(size_t index, const Schedule& of, size_t piece,
                              const std::string& worker) {
  TellError(index, worker,
            fmt::format("{} attempts failed; the last, by {}: {}", of.attempts(piece), worker,
                        of.why(piece)),
            "judge this kernel alone with cupel check to see what it does to a worker");
}

}  // namespace cupel::serve
