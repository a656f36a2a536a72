// The inside of a crew: places with their workers, and what Run goes round with. Starting, watching
// and ending workers is in crew.cc, what is said to them and by them in crew_talk.cc, the timing of
// what they have judged in crew_timing.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "oracle/installed.h"
#include "serve/crew.h"
#include "serve/desk.h"
#include "serve/errands.h"
#include "serve/place.h"
#include "serve/schedule.h"
#include "serve/timing.h"

namespace cupel::serve {

struct Crew::Impl {
  explicit Impl(CrewOptions given)
      : options(std::move(given)),
        desk(options.make_oracle ? options.make_oracle : [python = options.setup.python] {
          return oracle::OpenInstalled(python, [](const std::string&) {});
        }) {}

  Status AddPlaces();
  void Note(const std::string& line) {
    if (options.note) options.note(line);
  }
  std::set<size_t> Usable() const;
  bool AllGone() const { return Usable().empty(); }

  // One round of Run.
  void Begin(Place& place);
  void HandOut(Place& place);
  bool HandOutSetting(Place& place, bool before_judging);
  void Send(Place& place, size_t index, Assignment work, std::optional<size_t> setting);
  void Wait(std::chrono::steady_clock::duration longest);
  void Pump(Place& place);
  void TakeMessage(Place& place, FromWorker& message);
  void TakeDone(Place& place, Done& done);
  void TakeVerdict(Place& place, size_t index, Done& done);
  void TakeTimes(Place& place, size_t index, size_t setting, Done& done);
  void TakeAnswers();
  void Watch(Place& place);
  void Lost(Place& place, const std::string& why);
  void LoseItem(Place& place, const std::string& why);
  void Dismiss(Place& place, bool politely);
  void SeeOff();

  // Of items that are timed.
  void BeginTiming(size_t index, Timing timing);
  std::set<size_t> AbleToTime(const Timing& timing) const;
  bool MayBeTimed(const Timing& timing) const;
  bool IsGpuAtIt(const Place& place, size_t index) const;
  Timing* GiveTicketBack(const Place& place, size_t index);
  void DropUntimeable();
  void JudgeAnew(size_t index, const std::string& why);

  // Each ends an item.
  void Conclude(size_t index, const Judgement& judged, const std::string& worker);
  void TellError(size_t index, const std::string& worker, std::string error, std::string remedy);
  void TellAttempts(size_t index, const Schedule& of, size_t piece, const std::string& worker);

  struct Leaving {
    std::unique_ptr<Link> link;
    std::chrono::steady_clock::time_point terminate_at, kill_at;
    bool terminated = false;
  };

  CrewOptions options;
  Hello ours;
  std::vector<std::unique_ptr<Place>> places;
  std::vector<Leaving> leaving;  // workers that were told to end
  CaseDesk desk;
  Errands errands;
  int64_t last_link = 0, last_ticket = 0;
  std::chrono::steady_clock::time_point last_beat = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point waits_since = last_beat;  // for a first worker
  bool waits_unheard = true;  // no worker has said a word, and nobody has been told of it
  void RemarkOnWaiting();

  // While Run runs.
  std::span<const Item> items;
  std::optional<Schedule> schedule;
  std::map<size_t, Timing> timings;  // of items that are judged, or were in an earlier run
  std::chrono::steady_clock::time_point began;
  const Listener* listener = nullptr;
};

}  // namespace cupel::serve
