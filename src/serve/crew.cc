// SPDX-License-Identifier: Apache-2.0
#include "serve/crew.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "gpu/driver.h"
#include "os/cancel.h"
#include "os/fd.h"
#include "os/process.h"
#include "report/bench_parts.h"
#include "serve/command.h"
#include "serve/crew_impl.h"
#include "serve/identity.h"

namespace cupel::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBeat = std::chrono::seconds(10);  // of signs of life to workers
constexpr auto kGrace = std::chrono::milliseconds(3'000);
constexpr auto kUntilRemark = std::chrono::seconds(10);  // that no worker has started

/// PyTorch's of one of `workers` that share this machine. Each waits for the GPU and for compilers
/// most of the time, but threads of all workers at once would wait for each other.
int ThreadsBesideGpu(int cores, int workers) {
  return workers <= 1 ? 0 : std::clamp(4 * cores / workers, std::min(8, cores), cores);
}

/// Workers of this machine: how many, and the device of each.
Result<std::vector<Setup>> LocalSetups(const Setup& setup, int wanted) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const bool on_gpu = setup.device.starts_with("gpu"), on_all = setup.device == "gpu:all";
  int gpus = 1;
  if (on_all) {
    TRY_ASSIGN(const auto driver, gpu::OpenDriver());
    TRY(driver->Check(driver->device_count(&gpus), "count the GPUs"));
  }
  const int count = wanted > 0 ? wanted : on_gpu ? gpus : std::max(1, cores / 2);
  std::vector<Setup> setups(static_cast<size_t>(count), setup);
  for (int i = 0; i < count; ++i) {
    Setup& one = setups[static_cast<size_t>(i)];
    if (on_all) one.device = fmt::format("gpu:{}", i % std::max(gpus, 1));
    if (one.threads != 0) continue;
    one.threads = on_gpu ? ThreadsBesideGpu(cores, count) : std::max(1, cores / count);
  }
  return setups;
}

/// A worker of a command sees the GPUs that it was started with.
Setup RemoteSetup(Setup setup) {
  if (setup.device == "gpu:all") setup.device = "gpu:0";
  return setup;
}

}  // namespace

Status Crew::Impl::AddPlaces() {
  if (options.commands.empty()) {
    TRY_ASSIGN(const auto setups, LocalSetups(options.setup, options.workers));
    for (size_t i = 0; i < setups.size(); ++i) {
      auto place = std::make_unique<Place>();
      place->argv = {"/proc/self/exe", "worker"};
      place->setup = setups[i];
      place->name = fmt::format("local {}", i);
      place->is_local = true;
      places.push_back(std::move(place));
    }
  }
  for (const std::string& command : options.commands) {
    TRY_ASSIGN(std::vector<std::string> argv, SplitCommand(command));
    TRY_ASSIGN(argv[0], FindProgram(argv[0]));
    for (int i = 0; i < std::max(1, options.workers); ++i) {
      auto place = std::make_unique<Place>();
      place->argv = argv;
      place->setup = RemoteSetup(options.setup);
      place->name = fmt::format("worker {}", places.size());
      places.push_back(std::move(place));
    }
  }
  for (size_t i = 0; i < places.size(); ++i) places[i]->index = i;
  return {};
}

std::set<size_t> Crew::Impl::Usable() const {
  std::set<size_t> usable;
  for (const auto& place : places) {
    if (!place->is_given_up) usable.insert(place->index);
  }
  return usable;
}

void Crew::Impl::Begin(Place& place) {
  if (place.link || place.is_given_up || Clock::now() < place.begin_at) return;
  auto link = Link::Start(place.argv, std::min(options.farewell, kGrace));
  if (!link) {
    if (link.error().code != ErrorCode::kCancelled) Lost(place, link.error().ToString());
    return;
  }
  place.link = std::move(*link);
  place.link_id = ++last_link;
  place.began = Clock::now();
  place.stage = Place::Stage::kStarting;
}

void Crew::Impl::Wait(Clock::duration longest) {
  std::vector<pollfd> fds{{os::CancelFd(), POLLIN, 0}, {desk.fd(), POLLIN, 0}};
  for (const auto& place : places) {
    if (!place->link) continue;
    fds.push_back({place->link->read_fd(), POLLIN, 0});
    fds.push_back({place->link->error_fd(), POLLIN, 0});
    fds.push_back({place->link->write_fd(), POLLOUT, 0});
  }
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
  (void)poll(fds.data(), fds.size(), static_cast<int>(wait));
}

void Crew::Impl::Pump(Place& place) {
  if (!place.link) return;
  Arrivals arrivals = place.link->Pump();
  for (const std::string& remark : arrivals.remarks) {
    Note(fmt::format("{}: {}", place.name, remark));
  }
  for (FromWorker& message : arrivals.messages) {
    if (place.link) TakeMessage(place, message);
  }
  if (place.link && arrivals.ended) Lost(place, *arrivals.ended);
}

/// A queue may let workers wait for hours, which is no fault; but people want to know.
void Crew::Impl::RemarkOnWaiting() {
  if (!waits_unheard || Clock::now() - waits_since < kUntilRemark) return;
  waits_unheard = false;
  Note(fmt::format("no worker has said anything yet; waiting for {} of: {}", places.size(),
                   fmt::join(places.front()->argv, " ")));
}

/// The worker is gone or of no use; another takes its place after a pause.
void Crew::Impl::Lost(Place& place, const std::string& why) {
  const bool was_ready = place.stage == Place::Stage::kIdle || place.stage == Place::Stage::kBusy;
  desk.CloseAll(place.link_id);
  Dismiss(place, false);
  place.why = why;
  place.failed_starts = was_ready ? 0 : place.failed_starts + 1;
  if (place.failed_starts >= options.most_failed_starts) place.is_given_up = true;
  const int doublings = std::clamp(place.failed_starts - 1, 0, 5);
  place.lost_at = Clock::now();
  place.begin_at = place.lost_at + options.first_pause * (1 << doublings);
  Note(fmt::format("{}: {}{}", place.name, why,
                   place.is_given_up ? "; it is not started again" : "; it is started again"));
  LoseItem(place, why);
}

/// Workers that give no sign of life, or do one thing for too long.
void Crew::Impl::Watch(Place& place) {
  if (!place.link) return;
  const auto now = Clock::now();
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  // A worker that waits in a queue of machines says nothing, and may wait as long as it likes.
  const bool must_speak = place.is_local || place.stage != Place::Stage::kStarting;
  if (must_speak && now - place.link->last_sign() > options.patience) {
    return Lost(place,
                fmt::format("it gave no sign of life for {:g} s", seconds(options.patience)));
  }
  if (place.item && now - place.item_began > options.item_limit) {
    Lost(place,
         fmt::format("it worked on one item for more than {:g} s", seconds(options.item_limit)));
  }
}

/// The worker ends on its own time, while another may take its place.
void Crew::Impl::Dismiss(Place& place, bool politely) {
  if (place.link && !place.link->is_over()) {
    place.link->Send(Bye{});
    const auto now = Clock::now();
    const auto patience = options.farewell;
    leaving.push_back({std::move(place.link), politely ? now + patience : now, now + 2 * patience});
  }
  place.Clear();
}

void Crew::Impl::SeeOff() {
  const auto now = Clock::now();
  std::erase_if(leaving, [&](Leaving& one) {
    if (one.link->Pump().ended || now >= one.kill_at) return true;  // what is left is killed
    // Once: the second signal ends a worker before it has cleaned up.
    if (now >= one.terminate_at && !std::exchange(one.terminated, true)) one.link->Terminate();
    return false;
  });
}

Crew::Crew(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Crew>> Crew::Start(CrewOptions options) {
  for (auto& root : options.setup.include_roots) root = std::filesystem::absolute(root);
  auto impl = std::make_unique<Impl>(std::move(options));
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(impl->ours, WhoAmI(data));
  TRY(impl->AddPlaces());
  for (const auto& place : impl->places) impl->Begin(*place);
  return std::unique_ptr<Crew>(new Crew(std::move(impl)));
}

Crew::~Crew() {
  for (const auto& place : impl_->places) impl_->Dismiss(*place, !os::CancelRequested());
  while (!impl_->leaving.empty()) {
    impl_->SeeOff();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

size_t Crew::size() const { return impl_->places.size(); }

Status Crew::Run(std::span<const Item> items, const Listener& listener) {
  Impl& crew = *impl_;
  crew.items = items;
  crew.listener = &listener;
  crew.timings.clear();
  crew.began = Clock::now();
  crew.schedule.emplace(items.size(), crew.options.most_attempts);
  for (size_t i = 0; i < items.size(); ++i) {
    if (report::SettingsToTime(items[i].judged.verdict).empty()) continue;
    crew.schedule->Hold(i);
    crew.BeginTiming(i, Timing(items[i].judged, crew.options.most_attempts));
  }
  Status status;
  while (!crew.schedule->IsDone()) {
    if (os::CancelRequested()) {
      status = Fail(ErrorCode::kCancelled, "interrupted");
      break;
    }
    for (const auto& place : crew.places) crew.Begin(*place);
    crew.DropUntimeable();
    for (const auto& place : crew.places) crew.HandOut(*place);
    if (crew.schedule->IsDone()) break;
    if (crew.AllGone()) {
      const Place& last = *crew.places.back();
      status = Fail(ErrorCode::kEnvironment,
                    fmt::format("no worker can be started; {}: {}", last.name, last.why),
                    "start one by hand to see what it says; cupel worker begins with a line "
                    "of JSON");
      break;
    }
    crew.Wait(std::chrono::milliseconds(200));
    for (const auto& place : crew.places) {
      crew.Pump(*place);
      crew.Watch(*place);
    }
    crew.TakeAnswers();
    crew.SeeOff();
    crew.RemarkOnWaiting();
    if (Clock::now() - crew.last_beat > kBeat) {
      crew.last_beat = Clock::now();
      for (const auto& place : crew.places) {
        if (place->link && place->stage != Place::Stage::kStarting) place->link->Send(Alive{});
      }
    }
  }
  for (const auto& place : crew.places) {  // after an error nobody waits for these
    if (place->item) crew.Dismiss(*place, false);
    place->item.reset();
    place->setting.reset();
  }
  crew.schedule.reset();
  crew.items = {};
  return status;
}

}  // namespace cupel::serve
