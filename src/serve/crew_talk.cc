// What a crew says to its workers, and what it makes of what they say.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "serve/crew_impl.h"
#include "serve/identity.h"

namespace cupel::serve {
namespace {

constexpr int kMostErrors = 3;  // of one worker in a row

}  // namespace

void Crew::Impl::HandOut(Place& place) {
  if (place.stage != Place::Stage::kIdle || !schedule) return;
  while (const auto index = schedule->Take(place.index, Usable())) {
    const Item& item = items[*index];
    auto work = errands.Prepare(item, options.tasks_root);
    if (!work) {
      schedule->Finish(*index);
      Outcome outcome;
      outcome.item = item.id;
      outcome.error = work.error().message;
      outcome.remedy = work.error().remedy;
      Tell(std::move(outcome));
      continue;
    }
    work->ticket = ++last_ticket;
    place.item = *index;
    place.ticket = work->ticket;
    place.expected = ExpectedOf(*work);
    work->item.judged = {};
    if (const auto before = known.find(*index);
        before != known.end() && before->second.device == place.ready.device &&
        !WhyNotThis(place.expected, before->second.verdict)) {  // its files lie elsewhere now
      work->item.judged = before->second;
    }
    place.item_began = std::chrono::steady_clock::now();
    place.judged_anew = false;
    place.stage = Place::Stage::kBusy;
    place.link->Send(*work);
    return;
  }
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
  } else if (auto* judged = std::get_if<Judged>(&message)) {
    TakeJudged(place, *judged);
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

void Crew::Impl::TakeJudged(Place& place, Judged& judged) {
  if (!place.item || judged.ticket != place.ticket) return;  // of an item that is over
  if (place.judged_anew || !place.ready.timed) return Lost(place, "it sent a verdict out of turn");
  if (auto wrong = WhyNotThis(place.expected, judged.verdict)) return Lost(place, *wrong);
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - place.item_began).count();
  place.judged_anew = true;
  place.item_began = now;  // timing may take as long again
  Judgement& kept = known[*place.item];
  kept = {std::move(judged.verdict), place.ready.device, place.ready.cases, seconds};
  if (listener->judged) listener->judged(items[*place.item].id, kept);
}

void Crew::Impl::TakeDone(Place& place, Done& finished) {
  if (!place.item || finished.ticket != place.ticket) {
    return Note(fmt::format("{}: a second result for the same work is dropped", place.name));
  }
  if (finished.error && finished.error->code == ErrorCode::kCancelled) {
    return Lost(place, "it was asked to end");
  }
  if (!finished.error) {
    if (auto wrong = WhyNotThis(place.expected, finished.verdict)) return Lost(place, *wrong);
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
  schedule->Finish(index);
  Outcome outcome;
  outcome.item = items[index].id;
  outcome.bench = std::move(finished.bench);
  outcome.worker = place.name;
  outcome.cases = place.ready.cases;
  outcome.seconds = finished.seconds;
  if (const auto before = known.find(index);
      before != known.end() && before->second.verdict == finished.verdict) {
    outcome.cases = before->second.cases;
    if (!place.judged_anew) outcome.seconds += before->second.seconds;
  }
  outcome.verdict = std::move(finished.verdict);
  known.erase(index);
  if (finished.error) {
    outcome.error = finished.error->message;
    outcome.remedy = finished.error->remedy;
  }
  Tell(std::move(outcome));
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

void Crew::Impl::Tell(Outcome outcome) { listener->done(std::move(outcome)); }

void Crew::Impl::LoseItem(Place& place, const std::string& why) {
  if (!place.item || !schedule) return;
  const size_t index = *std::exchange(place.item, std::nullopt);
  if (schedule->Lose(index, place.index, why)) {
    if (Usable().empty()) return;
    return Note(fmt::format("{} is tried again; {} did not finish it: {}", items[index].id,
                            place.name, why));
  }
  known.erase(index);
  Outcome outcome;
  outcome.item = items[index].id;
  outcome.worker = place.name;
  outcome.error = fmt::format("{} attempts failed; the last, by {}: {}", schedule->attempts(index),
                              place.name, why);
  outcome.remedy = "judge this kernel alone with cupel check to see what it does to a worker";
  Tell(std::move(outcome));
}

}  // namespace cupel::serve
