// SPDX-License-Identifier: Apache-2.0
#include "serve/worker_pool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/lanes.h"
#include "gpu/driver.h"
#include "os/folders.h"
#include "os/stop.h"
#include "report/bench_parts.h"
#include "serve/command.h"
#include "serve/identity.h"
#include "serve/worker_pool_impl.h"

namespace cupel::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kHeartbeat = std::chrono::seconds(10);  // between Alive messages to workers
constexpr auto kGrace = std::chrono::milliseconds(3'000);
constexpr auto kWaitNoteDelay = std::chrono::seconds(10);  // before noting that no worker started

/// PyTorch's CPU threads for each of `workers` that share this machine; 0: one per core. A worker
/// mostly waits for the GPU and for compilers, so the total may exceed the number of cores. If each
/// worker used all cores, their threads would block each other.
int ThreadsPerGpuWorker(int cores, int workers) {
  return workers <= 1 ? 0 : std::clamp(4 * cores / workers, std::min(8, cores), cores);
}

/// One setup for each worker on this machine, with its device and threads. `wanted`: how many; 0:
/// as WorkerPoolOptions::workers says.
Result<std::vector<Setup>> LocalSetups(const Setup& setup, int wanted) {
  const int cores = static_cast<int>(Cores());
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
    one.threads = on_gpu ? ThreadsPerGpuWorker(cores, count) : std::max(1, cores / count);
  }
  return setups;
}

/// A worker that was started by a command uses the first GPU that its launcher gave it.
Setup RemoteSetup(Setup setup) {
  if (setup.device == "gpu:all") setup.device = "gpu:0";
  return setup;
}

}  // namespace

Status WorkerPool::Impl::AddSlots() {
  if (options.commands.empty()) {
    TRY_ASSIGN(const auto setups, LocalSetups(options.setup, options.workers));
    for (size_t i = 0; i < setups.size(); ++i) {
      auto slot = std::make_unique<WorkerSlot>();
      slot->argv = {"/proc/self/exe", "worker"};
      slot->setup = setups[i];
      slot->name = fmt::format("local {}", i);
      slot->is_local = true;
      slots.push_back(std::move(slot));
    }
  }
  for (const std::string& command : options.commands) {
    TRY_ASSIGN(std::vector<std::string> argv, SplitCommand(command));
    TRY_ASSIGN(argv[0], FindProgram(argv[0]));
    for (int i = 0; i < std::max(1, options.workers); ++i) {
      auto slot = std::make_unique<WorkerSlot>();
      slot->argv = argv;
      slot->setup = RemoteSetup(options.setup);
      slot->name = fmt::format("worker {}", slots.size());
      slots.push_back(std::move(slot));
    }
  }
  for (size_t i = 0; i < slots.size(); ++i) slots[i]->index = i;
  return {};
}

std::set<size_t> WorkerPool::Impl::Usable() const {
  std::set<size_t> usable;
  for (const auto& slot : slots) {
    if (!slot->is_given_up) usable.insert(slot->index);
  }
  return usable;
}

void WorkerPool::Impl::Begin(WorkerSlot& slot) {
  if (slot.link || slot.is_given_up || Clock::now() < slot.begin_at) return;
  auto link = Link::Start(slot.argv, std::min(options.stop_timeout, kGrace), options.stop);
  if (!link) {
    if (link.error().code != ErrorCode::kCancelled) Lost(slot, link.error().ToString());
    return;
  }
  slot.link = std::move(*link);
  slot.link_id = ++last_link;
  slot.began = Clock::now();
  slot.stage = WorkerSlot::Stage::kStarting;
}

void WorkerPool::Impl::Wait(Clock::duration longest) {
  const os::StopFd stop(options.stop);
  std::vector<pollfd> fds{{stop.get(), POLLIN, 0}, {case_server.fd(), POLLIN, 0}};
  for (const auto& slot : slots) {
    if (!slot->link) continue;
    fds.push_back({slot->link->read_fd(), POLLIN, 0});
    fds.push_back({slot->link->error_fd(), POLLIN, 0});
    fds.push_back({slot->link->write_fd(), POLLOUT, 0});
  }
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
  (void)poll(fds.data(), fds.size(), static_cast<int>(wait));
}

void WorkerPool::Impl::Pump(WorkerSlot& slot) {
  if (!slot.link) return;
  Arrivals arrivals = slot.link->Pump();
  for (const std::string& remark : arrivals.remarks) {
    Note(fmt::format("{}: {}", slot.name, remark));
  }
  for (FromWorker& message : arrivals.messages) {
    if (slot.link) TakeMessage(slot, message);
  }
  if (slot.link && arrivals.ended) Lost(slot, *arrivals.ended);
}

/// A job queue may hold workers back for hours. That is not an error, but the user should know.
void WorkerPool::Impl::NoteWaiting() {
  if (!is_wait_unreported || Clock::now() - waiting_since < kWaitNoteDelay) return;
  is_wait_unreported = false;
  Note(fmt::format("no worker has started yet; waiting for {} of: {}", slots.size(),
                   fmt::join(slots.front()->argv, " ")));
}

/// The worker ended or is unusable. It is restarted after a pause, unless its slot is given up.
void WorkerPool::Impl::Lost(WorkerSlot& slot, const std::string& why) {
  const bool was_ready =
      slot.stage == WorkerSlot::Stage::kIdle || slot.stage == WorkerSlot::Stage::kBusy;
  case_server.CloseAll(slot.link_id);
  Dismiss(slot, false);
  slot.why = why;
  slot.remedy.clear();
  slot.failed_starts = was_ready ? 0 : slot.failed_starts + 1;
  if (slot.failed_starts >= options.most_failed_starts) slot.is_given_up = true;
  const int doublings = std::clamp(slot.failed_starts - 1, 0, 5);
  slot.lost_at = Clock::now();
  slot.begin_at = slot.lost_at + options.first_pause * (1 << doublings);
  Note(fmt::format("{}: {}{}", slot.name, why,
                   slot.is_given_up ? "; it is not restarted" : "; it is restarted"));
  LoseItem(slot, why);
}

/// Replaces a worker that sends nothing, or that spends too long on one item.
void WorkerPool::Impl::Watch(WorkerSlot& slot) {
  if (!slot.link) return;
  const auto now = Clock::now();
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  // A remote worker sends nothing while its job is queued, and may be queued for any time.
  const bool must_send = slot.is_local || slot.stage != WorkerSlot::Stage::kStarting;
  if (must_send && now - slot.link->last_sign() > options.patience) {
    return Lost(slot, fmt::format("it sent nothing for {:g} s", seconds(options.patience)));
  }
  if (slot.item && now - slot.item_began > options.item_limit) {
    Lost(slot,
         fmt::format("it worked on one item for more than {:g} s", seconds(options.item_limit)));
  }
}

/// Asks the worker to end. It may still be running when its slot gets another worker.
void WorkerPool::Impl::Dismiss(WorkerSlot& slot, bool politely) {
  if (slot.link && !slot.link->is_over()) {
    slot.link->Send(Bye{});
    const auto now = Clock::now();
    const auto patience = options.stop_timeout;
    stopping.push_back({std::move(slot.link), politely ? now + patience : now, now + 2 * patience});
  }
  slot.Clear();
}

void WorkerPool::Impl::StopWorkers() {
  const auto now = Clock::now();
  std::erase_if(stopping, [&](Stopping& one) {
    if (one.link->Pump().ended || now >= one.kill_at) return true;  // ~Link kills it
    // Only once: a second SIGTERM would end the worker before it has cleaned up.
    if (now >= one.terminate_at && !std::exchange(one.terminated, true)) one.link->Terminate();
    return false;
  });
}

WorkerPool::WorkerPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<WorkerPool>> WorkerPool::Start(WorkerPoolOptions options) {
  for (auto& root : options.setup.include_roots) root = std::filesystem::absolute(root);
  auto impl = std::make_unique<Impl>(std::move(options));
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(impl->ours, WhoAmI(data));
  TRY(impl->AddSlots());
  for (const auto& slot : impl->slots) impl->Begin(*slot);
  return std::unique_ptr<WorkerPool>(new WorkerPool(std::move(impl)));
}

WorkerPool::~WorkerPool() {
  for (const auto& slot : impl_->slots) {
    impl_->Dismiss(*slot, !impl_->options.stop.stop_requested());
  }
  while (!impl_->stopping.empty()) {
    impl_->StopWorkers();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

size_t WorkerPool::size() const { return impl_->slots.size(); }

Status WorkerPool::Run(std::span<const Item> items, const Listener& listener) {
  Impl& pool = *impl_;
  pool.items = items;
  pool.listener = &listener;
  pool.timings.clear();
  pool.began = Clock::now();
  pool.schedule.emplace(items.size(), pool.options.most_attempts);
  for (size_t i = 0; i < items.size(); ++i) {
    if (report::SettingsToTime(items[i].judged.verdict).empty()) continue;
    pool.schedule->Hold(i);
    pool.BeginTiming(i, Timing(items[i].judged, pool.options.most_attempts));
  }
  Status status;
  while (!pool.schedule->IsDone()) {
    if (pool.options.stop.stop_requested()) {
      status = Fail(ErrorCode::kCancelled, "interrupted");
      break;
    }
    for (const auto& slot : pool.slots) pool.Begin(*slot);
    pool.DropUntimeable();
    for (const auto& slot : pool.slots) pool.HandOut(*slot);
    if (pool.schedule->IsDone()) break;
    if (pool.AllGivenUp()) {
      const WorkerSlot& last = *pool.slots.back();
      status = Fail(ErrorCode::kEnvironment,
                    fmt::format("no worker can be started; {}: {}", last.name, last.why),
                    last.remedy.empty() ? "run the worker command by hand to see its messages; "
                                          "cupel worker first prints a line of JSON"
                                        : last.remedy);
      break;
    }
    pool.Wait(std::chrono::milliseconds(200));
    for (const auto& slot : pool.slots) {
      pool.Pump(*slot);
      pool.Watch(*slot);
    }
    pool.TakeAnswers();
    pool.StopWorkers();
    pool.NoteWaiting();
    if (Clock::now() - pool.last_heartbeat > kHeartbeat) {
      pool.last_heartbeat = Clock::now();
      for (const auto& slot : pool.slots) {
        if (slot->link && slot->stage != WorkerSlot::Stage::kStarting) slot->link->Send(Alive{});
      }
    }
  }
  for (const auto& slot : pool.slots) {  // after an error: abandon what is still being done
    if (slot->item) pool.Dismiss(*slot, false);
    slot->item.reset();
    slot->setting.reset();
  }
  pool.schedule.reset();
  pool.items = {};
  return status;
}

}  // namespace cupel::serve
