// WorkerPool: hands work to the workers and handles their messages.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "base/schedule.h"
#include "report/bench_parts.h"
#include "serve/identity.h"
#include "serve/worker_pool_impl.h"

namespace cupel::serve {

void WorkerPool::Impl::HandOut(WorkerSlot& slot) {
  if (slot.stage != WorkerSlot::Stage::kIdle || !schedule) return;
  if (HandOutSetting(slot, true)) return;
  while (const auto index = schedule->Take(slot.index, Usable())) {
    const Item& item = items[*index];
    auto work = assignment_builder.Prepare(item, options.tasks_root);
    if (!work) {
      ReportError(*index, "", work.error().message, work.error().remedy);
      continue;
    }
    return Send(slot, *index, std::move(*work), std::nullopt);
  }
  HandOutSetting(slot, false);
}

void WorkerPool::Impl::Send(WorkerSlot& slot, size_t index, Assignment work,
                            std::optional<size_t> setting) {
  work.ticket = ++last_ticket;
  slot.item = index;
  slot.setting = setting;
  slot.ticket = work.ticket;
  slot.expected = ExpectedOf(work);
  slot.item_began = std::chrono::steady_clock::now();
  slot.stage = WorkerSlot::Stage::kBusy;
  slot.link->Send(work);
}

void WorkerPool::Impl::TakeMessage(WorkerSlot& slot, FromWorker& message) {
  const int64_t worker = slot.link_id;
  is_wait_unreported = false;
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (const auto refusal = Incompatibility(ours, *hello)) {
      slot.is_given_up = true;  // restarting it would start the same program
      return Lost(slot, refusal->ToString());
    }
    if (!slot.is_local) slot.name = fmt::format("{} {}", hello->host, slot.index);
    slot.link->Send(slot.setup);
    slot.stage = WorkerSlot::Stage::kPreparing;
  } else if (auto* ready = std::get_if<Ready>(&message)) {
    if (slot.stage != WorkerSlot::Stage::kPreparing) {
      return Lost(slot, "it sent an unexpected \"ready\"");
    }
    slot.ready = std::move(*ready);
    slot.failed_starts = 0;
    slot.stage = WorkerSlot::Stage::kIdle;
  } else if (const auto* failed = std::get_if<Failed>(&message)) {
    const Error& error = failed->error;
    // This machine would not be another one at the next start.
    const bool lasts = slot.is_local && slot.stage == WorkerSlot::Stage::kPreparing &&
                       error.code == ErrorCode::kEnvironment;
    slot.is_given_up = lasts || error.code == ErrorCode::kInternal || !IsMachineError(error);
    Lost(slot, error.message);
    slot.remedy = error.remedy;
  } else if (const auto* alive = std::get_if<Alive>(&message)) {
    if (options.events != nullptr && alive->ticket == slot.ticket && slot.item) {
      std::string stage = fmt::format("{}: {}: {}", slot.index, items[*slot.item].id, alive->stage);
      if (alive->total > 0) stage += fmt::format(" ({} of {})", alive->done, alive->total);
      options.events->Show({std::move(stage)});
    }
  } else if (auto* finished = std::get_if<Done>(&message)) {
    TakeDone(slot, *finished);
  } else if (auto* open = std::get_if<OpenCases>(&message)) {
    const task::Task* task = slot.item ? assignment_builder.TaskOf(items[*slot.item]) : nullptr;
    if (open->ticket != slot.ticket || task == nullptr) return;  // the item has ended
    case_server.Open(worker, std::move(*open), *task);
  } else if (const auto* next = std::get_if<NextCase>(&message)) {
    case_server.Next(worker, next->stream);
  } else if (const auto* close = std::get_if<CloseCases>(&message)) {
    slot.files.erase(close->stream);
    case_server.Close(worker, close->stream);
  } else if (const auto* fetch = std::get_if<Fetch>(&message)) {
    slot.link->Send(ChunkOf(slot, *fetch));
  }
}

void WorkerPool::Impl::TakeDone(WorkerSlot& slot, Done& finished) {
  if (!slot.item || finished.ticket != slot.ticket) {
    return Note(fmt::format("{}: a second result for the same work is dropped", slot.name));
  }
  if (finished.error && finished.error->code == ErrorCode::kCancelled) {
    return Lost(slot, "it was asked to end");
  }
  if (!finished.error) {
    if (auto wrong = ResultMismatch(slot.expected, finished)) return Lost(slot, *wrong);
  }
  slot.stage = WorkerSlot::Stage::kIdle;
  if (finished.error && IsMachineError(*finished.error)) {
    const std::string why = finished.error->ToString();
    LoseItem(slot, why);
    if (++slot.errors_in_a_row >= kMostErrorsInARow) Lost(slot, why);
    return;
  }
  slot.errors_in_a_row = 0;
  const size_t index = *std::exchange(slot.item, std::nullopt);
  if (const auto setting = std::exchange(slot.setting, std::nullopt)) {
    TakeTimes(slot, index, *setting, finished);
  } else {
    TakeVerdict(slot, index, finished);
  }
}

void WorkerPool::Impl::TakeVerdict(WorkerSlot& slot, size_t index, Done& finished) {
  if (finished.error) {
    return ReportError(index, slot.name, finished.error->message, finished.error->remedy);
  }
  Judgement judged;
  judged.verdict = std::move(finished.verdict);
  judged.device = slot.ready.device;
  judged.cases = slot.ready.cases;
  judged.seconds = finished.seconds;
  if (!items[index].timed || !slot.ready.timed || report::SettingsToTime(judged.verdict).empty()) {
    return Conclude(index, judged, slot.name);
  }
  if (listener->judged) listener->judged(items[index].id, judged);
  Timing timing(std::move(judged), options.most_attempts);
  timing.judge = slot.index;
  timing.worker = slot.name;
  timing.is_confirmed = true;
  BeginTiming(index, std::move(timing));
}

void WorkerPool::Impl::TakeAnswers() {
  for (CaseServer::Answer& answer : case_server.Collect()) {
    for (const auto& slot : slots) {
      if (!slot->link || slot->link_id != answer.worker) continue;
      if (!answer.answer.sha256.empty()) {
        slot->files.insert_or_assign(answer.answer.stream,
                                     SentFile{answer.answer.sha256, std::move(answer.file)});
      }
      slot->link->Send(answer.answer);
    }
  }
}

void WorkerPool::Impl::LoseItem(WorkerSlot& slot, const std::string& why) {
  if (!slot.item || !schedule) return;
  const size_t index = *std::exchange(slot.item, std::nullopt);
  const auto setting = std::exchange(slot.setting, std::nullopt);
  Schedule* of = &*schedule;
  std::string what = items[index].id;
  if (setting) {
    Timing* const timing = GiveTicketBack(slot, index);
    if (timing == nullptr) return;
    of = &timing->schedule;
    what = fmt::format("timing {} at {}", what, timing->settings[*setting]);
  }
  if (of->Lose(setting.value_or(index), slot.index, why)) {
    if (Usable().empty()) return;
    return Note(fmt::format("{} is tried again; {} did not finish it: {}", what, slot.name, why));
  }
  ReportAttempts(index, *of, setting.value_or(index), slot.name);
}

void WorkerPool::Impl::Conclude(size_t index, const Judgement& judged, const std::string& worker) {
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

void WorkerPool::Impl::ReportError(size_t index, const std::string& worker, std::string error,
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

void WorkerPool::Impl::ReportAttempts(size_t index, const Schedule& of, size_t piece,
                                      const std::string& worker) {
  ReportError(index, worker,
              fmt::format("{} attempts failed; the last, by {}: {}", of.attempts(piece), worker,
                          of.why(piece)),
              "run cupel check on this kernel alone to see why workers fail on it");
}

}  // namespace cupel::serve
