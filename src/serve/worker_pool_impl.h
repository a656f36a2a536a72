// The implementation of WorkerPool. Starting, watching and ending workers is in worker_pool.cc, the
// exchange of messages with them in worker_pool_messages.cc, timing in worker_pool_timing.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/schedule.h"
#include "oracle/installed.h"
#include "serve/assignment_builder.h"
#include "serve/case_server.h"
#include "serve/timing.h"
#include "serve/worker_pool.h"
#include "serve/worker_slot.h"

namespace cupel::serve {

struct WorkerPool::Impl {
  explicit Impl(WorkerPoolOptions given)
      : options(std::move(given)),
        case_server(options.make_oracle
                        ? options.make_oracle
                        : [python = options.setup.python, stop = options.stop] {
                            return oracle::OpenInstalled(python, stop, [](const std::string&) {});
                          }) {}

  Status AddSlots();
  void Note(const std::string& line) {
    if (options.events != nullptr) options.events->Note(line);
  }
  std::set<size_t> Usable() const;
  bool AllGivenUp() const { return Usable().empty(); }

  // One round of Run.
  void Begin(WorkerSlot& slot);
  void HandOut(WorkerSlot& slot);
  bool HandOutSetting(WorkerSlot& slot, bool before_judging);
  void Send(WorkerSlot& slot, size_t index, Assignment work, std::optional<size_t> setting);
  void Wait(std::chrono::steady_clock::duration longest);
  void Pump(WorkerSlot& slot);
  void TakeMessage(WorkerSlot& slot, FromWorker& message);
  void TakeDone(WorkerSlot& slot, Done& done);
  void TakeVerdict(WorkerSlot& slot, size_t index, Done& done);
  void TakeTimes(WorkerSlot& slot, size_t index, size_t setting, Done& done);
  void TakeAnswers();
  void Watch(WorkerSlot& slot);
  void Lost(WorkerSlot& slot, const std::string& why);
  void LoseItem(WorkerSlot& slot, const std::string& why);
  void Dismiss(WorkerSlot& slot, bool politely);
  void StopWorkers();

  // Timing of items.
  void BeginTiming(size_t index, Timing timing);
  std::set<size_t> AbleToTime(const Timing& timing) const;
  bool MayBeTimed(const Timing& timing) const;
  bool IsGpuTiming(const WorkerSlot& slot, size_t index) const;
  Timing* GiveTicketBack(const WorkerSlot& slot, size_t index);
  void DropUntimeable();
  void JudgeAgain(size_t index, const std::string& why);

  // Each ends an item.
  void Conclude(size_t index, const Judgement& judged, const std::string& worker);
  void ReportError(size_t index, const std::string& worker, std::string error, std::string remedy);
  void ReportAttempts(size_t index, const Schedule& of, size_t piece, const std::string& worker);

  struct Stopping {
    std::unique_ptr<Link> link;
    std::chrono::steady_clock::time_point terminate_at, kill_at;
    bool terminated = false;
  };

  WorkerPoolOptions options;
  Hello ours;
  std::vector<std::unique_ptr<WorkerSlot>> slots;
  std::vector<Stopping> stopping;  // workers that were asked to end
  CaseServer case_server;
  AssignmentBuilder assignment_builder;
  int64_t last_link = 0, last_ticket = 0;
  std::chrono::steady_clock::time_point last_heartbeat = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point waiting_since = last_heartbeat;  // for a first worker
  bool is_wait_unreported = true;  // until a worker sends something or NoteWaiting reports the wait
  void NoteWaiting();

  // While Run runs.
  std::span<const Item> items;
  std::optional<Schedule> schedule;
  std::map<size_t, Timing> timings;  // by index of the item; judged in this run or an earlier one
  std::chrono::steady_clock::time_point began;
  const Listener* listener = nullptr;
};

}  // namespace cupel::serve
