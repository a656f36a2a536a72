// SPDX-License-Identifier: Apache-2.0
#include "app/suite/suite_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <system_error>

#include "app/rough_work.h"
#include "app/session.h"
#include "app/suite/suite_config.h"
#include "app/suite/suite_list.h"
#include "app/suite/suite_results.h"
#include "archive/suite_store.h"
#include "base/hash.h"
#include "base/lanes.h"
#include "base/part_events.h"
#include "base/random.h"
#include "base/version.h"
#include "device/device.h"
#include "judge/verdict.h"
#include "os/folders.h"
#include "records/json.h"
#include "report/eta.h"
#include "report/suite/document.h"
#include "serve/worker_pool.h"
#include "term/text.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

/// The problem (task and direction) of an item or of an item's time.
template <typename T>
std::string GroupOf(const T& item) {
  return item.task + "\n" + item.direction;
}

task::Direction DirectionOf(const serve::Item& item) {
  return item.backward ? task::Direction::kBackward : task::Direction::kForward;
}

class SuiteRun {
 public:
  SuiteRun(const SuiteRunOptions& options, Events& events) : options_(options), events_(events) {}

  Result<SuiteRunReport> Run() {
    if (options_.energy && !options_.common.device.starts_with("gpu")) {
      return Fail(ErrorCode::kUnsupported,
                  "unsupported: the emulator only estimates times, it cannot measure energy",
                  "leave out --energy, or use --device gpu on a machine with an NVIDIA GPU");
    }
    TRY_ASSIGN(const fs::path data, os::DataDir());
    tasks_root_ = data / "tasks";
    const bool resume = !options_.resume.empty();
    folder_ = resume ? options_.resume : options_.output;
    const fs::path file = folder_ / archive::kSuiteFile;
    std::error_code ignored;
    const bool continues = resume || fs::exists(file, ignored);
    if (continues) TRY(OpenStore(file, resume));  // the store has the configuration for the list
    TRY_ASSIGN(const SuiteList list, Listed());
    // Create the store only now: after a wrong input, the user can use the same folder again.
    if (!continues) TRY(CreateStore(file));
    TRY(Take(list));
    TRY_ASSIGN(pending_, store_->Pending());
    TRY(LoadTimes());
    TRY(store_->SetStatus(archive::RunStatus::kRunning));
    return Finish(pending_.empty() ? Status() : Judge());
  }

 private:
  Status CreateStore(const fs::path& file) {
    archive::NewSuite suite;
    suite.config = DumpJson(SuiteConfig(options_));
    suite.cupel_version = kVersion;
    suite.seed = options_.common.seed ? *options_.common.seed : EntropySeed();
    TRY_ASSIGN(archive::SuiteStore store, archive::SuiteStore::Create(file, suite));
    store_.emplace(std::move(store));
    TRY_ASSIGN(info_, store_->Info());
    return {};
  }

  Status OpenStore(const fs::path& file, bool resume) {
    if (HasOnlyResults(folder_)) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("{} contains merged results and cannot be resumed", folder_.string()),
                  "resume the runs that were merged, then merge them again");
    }
    TRY_ASSIGN(archive::SuiteStore store, archive::SuiteStore::Open(file, archive::Access::kOwner));
    store_.emplace(std::move(store));
    TRY(store_->AddEvent("resumed"));
    TRY_ASSIGN(info_, store_->Info());
    TRY_ASSIGN(const Json config, ParseJson(info_.config, file.string()));
    if (resume) {
      TRY(CheckSame(ResumeDifference(config, options_)));
      TRY(TakeSuiteConfig(config, options_));
    }
    return CheckSame(ConfigDifference(config, SuiteConfig(options_)));
  }

  Status CheckSame(std::string difference) const {
    if (difference.empty() && options_.common.seed && *options_.common.seed != info_.seed) {
      difference = fmt::format("seed: was {}, is now {}", info_.seed, *options_.common.seed);
    }
    if (difference.empty()) return {};
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the run in {} has different options ({})", folder_.string(), difference),
        fmt::format("continue it with --resume {} and without this option, or choose another "
                    "folder with -o",
                    folder_.string()));
  }

  Result<SuiteList> Listed() const {
    return ListSuite({options_.input, options_.kernels, options_.direction, options_.settings},
                     tasks_root_);
  }

  Status Take(const SuiteList& list) {
    Json listing{{"without_kernel", Json::array()}, {"notes", list.notes}};
    for (const auto& [task, direction] : list.without_kernel) {
      listing["without_kernel"].push_back({{"task", task}, {"direction", direction}});
    }
    if (const auto device = device::Find(options_.common.model); device) {
      listing["ceilings"] = {{"gpu", device->full_name},
                             {"read_bytes", device->dram_bytes},
                             {"fp32_flops", device->fp32_flops}};
    }
    TRY_ASSIGN(const auto relisted, store_->SetItems(list.items, DumpJson(listing)));
    for (const std::string& note : list.notes) events_.Note("note: " + note);
    TRY(Report(relisted.changed_kernels, "changed_kernel", "kernel changed, judged again"));
    TRY(Report(relisted.changed_tasks, "changed_task", "task changed, judged again"));
    return Report(relisted.removed, "gone",
                  "kernel or task no longer exists, removed from the run");
  }

  Status Report(const std::vector<std::string>& ids, const char* kind, const char* what) {
    for (const std::string& id : ids) {
      events_.Note(fmt::format("{}: {}", id, what));
      TRY(store_->AddEvent(kind, DumpJson(Json{{"item", id}})));
    }
    return {};
  }

  /// Loads the times of the earlier part of a resumed run, for the estimate of the time left.
  Status LoadTimes() {
    TRY_ASSIGN(const auto times, store_->Times());
    for (const archive::SuiteTime& time : times) eta_.Finished(GroupOf(time), time.seconds);
    return {};
  }

  serve::WorkerPoolOptions PoolOptions() {
    serve::WorkerPoolOptions options;
    options.commands = options_.workers;
    options.workers = options_.jobs;
    options.setup.device = options_.common.device;
    options.setup.model = options_.common.model;
    options.setup.engines = options_.common.engines;
    options.setup.arch = options_.compile.arch;
    options.setup.flags = options_.compile.flags;
    options.setup.compile_seconds = options_.compile.seconds;
    options.setup.include_roots = options_.compile.include_roots;
    options.setup.allow_weak_sandbox = options_.compile.allow_weak_sandbox;
    options.setup.python = options_.common.python;
    options.setup.cases = options_.cases;
    options.tasks_root = tasks_root_;
    options.stop = stop_.get_token();
    options.events = &events_;
    return options;
  }

  serve::Item ItemOf(const archive::SuiteItem& from) const {
    serve::Item item;
    item.id = from.id;
    item.kernel = from.kernel_path;
    item.source_sha256 = from.source_sha256;
    item.task_sha256 = from.task_sha256;
    item.task = from.task_path;
    item.backward = from.direction == "backward";
    item.settings = options_.settings;
    item.trials = options_.trials;
    // One seed for all kernels of a problem, so that they share the same inputs.
    item.seed = Random(info_.seed).Fork(GroupOf(from))();
    item.full_size = options_.full_size;
    item.explores = options_.explore;
    item.baselines = options_.baselines;
    item.energy = options_.energy;
    item.rounds = options_.rounds;
    return item;
  }

  Status Judge() {
    std::vector<serve::Item> items;
    for (const archive::SuiteItem& item : pending_) {
      items.push_back(ItemOf(item));
      TRY(TakeVerdict(items.back()));
      waiting_.emplace(item.id, GroupOf(item));
    }
    if (items.empty()) return {};
    SortLargestFirst(items);
    TRY_ASSIGN(const auto pool, serve::WorkerPool::Start(PoolOptions()));
    workers_ = pool->size();
    TRY(Refresh());
    Status stored;
    // If the store fails, further outcomes would be lost, so stop the worker pool.
    const auto store = [&](const auto& record) {
      if (stored) stored = record();
      if (!stored) stop_.request_stop();
    };
    serve::Listener listener;
    listener.done = [&](const serve::Outcome& outcome) { store([&] { return Record(outcome); }); };
    listener.judged = [&](const std::string& item, const serve::Judgement& judged) {
      store([&] {
        return store_->RecordVerdict(
            item, {DumpJson(judged.verdict), judged.device, judged.cases, judged.seconds});
      });
    };
    listener.withdrawn = [&](const std::string& item) {
      store([&] { return store_->DropVerdict(item); });
    };
    listener.timed = [&](const std::string& item, const serve::Timed& timed) {
      store([&] {
        return store_->RecordTimed(item, {timed.setting, DumpJson(timed.bench), timed.seconds});
      });
    };
    Status ran = pool->Run(items, listener);
    TRY(stored);
    return ran;
  }

  /// Sorts items by estimated work, the largest first. While the last kernel runs, all other
  /// workers are idle, so it should be small. Kernels of one problem stay together, because they
  /// share cases.
  void SortLargestFirst(std::vector<serve::Item>& items) const {
    std::map<std::string, double> work;
    for (const serve::Item& item : items) {
      const auto [entry, is_new] = work.try_emplace(waiting_.at(item.id), 0);
      if (!is_new) continue;
      const auto task = task::LoadTask(item.task, tasks_root_);
      if (task) entry->second = RoughWork(task->SettingsOf(DirectionOf(item)));
    }
    std::ranges::stable_sort(items, std::greater(), [&](const serve::Item& item) {
      return work.at(waiting_.at(item.id));
    });
  }

  /// Takes the item's stored verdict and times, if the run was stopped while it timed the item.
  Status TakeVerdict(serve::Item& item) const {
    TRY_ASSIGN(const auto judged, store_->VerdictOf(item.id));
    if (!judged) return {};
    auto verdict = ParseJson(judged->verdict, "verdict");
    if (!verdict) return {};  // the item is judged again
    item.judged = {std::move(*verdict), judged->device, judged->cases, judged->seconds, {}};
    for (const archive::SuiteTimed& timed : judged->timed) {
      auto bench = ParseJson(timed.bench, "times");
      if (!bench) continue;  // the setting is timed again
      item.judged.timed.push_back({timed.setting, std::move(*bench), timed.seconds});
    }
    return {};
  }

  Status Record(const serve::Outcome& outcome) {
    archive::SuiteOutcome stored;
    stored.error = outcome.error;
    stored.remedy = outcome.remedy;
    stored.worker = outcome.worker;
    stored.cases = outcome.cases;
    stored.commit = Commit();
    stored.seconds = outcome.seconds;
    stored.decision = "error";
    if (outcome.error.empty()) {
      stored.decision = report::DecisionOf(outcome.verdict, outcome.bench);
      stored.verdict = DumpJson(outcome.verdict);
      if (!outcome.bench.is_null()) stored.bench = DumpJson(outcome.bench);
      if (const auto group = waiting_.find(outcome.item); group != waiting_.end()) {
        eta_.Finished(group->second, outcome.seconds);
      }
    }
    waiting_.erase(outcome.item);
    TRY(store_->Record(outcome.item, stored));
    return Refresh();
  }

  /// Updates the progress line after an outcome.
  Status Refresh() {
    TRY_ASSIGN(const archive::SuiteCounts counts, store_->Count());
    Progress state;
    state.unit = "kernels";
    state.done = counts.done;
    state.total = counts.total;
    state.result = fmt::format("{} accepted, {} rejected", counts.accepted, counts.rejected);
    if (counts.unsupported > 0) state.result += fmt::format(", {} unsupported", counts.unsupported);
    if (counts.error > 0) state.result += fmt::format(", {} not judged", counts.error);
    std::vector<std::string> groups;
    groups.reserve(waiting_.size());
    for (const auto& [id, group] : waiting_) groups.push_back(group);
    state.left = eta_.Left(groups, workers_);
    events_.ShowWhole(std::move(state));
    return {};
  }

  /// Writes the results even after an error. Kernels that are not judged yet are "pending".
  Result<SuiteRunReport> Finish(const Status& done) {
    SuiteRunReport report;
    TRY_ASSIGN(const auto left, store_->Pending());
    report.not_judged = left.size();
    TRY_ASSIGN(report.counts, store_->Count());
    const archive::SuiteCounts& counts = report.counts;
    const bool whole = done && counts.done == counts.total;
    TRY(store_->SetStatus(whole ? archive::RunStatus::kFinished : archive::RunStatus::kStopped));
    TRY_ASSIGN(report.results, WriteSuiteResults(*store_, folder_));
    report.folder = folder_;
    report.status = done;
    if (!done && done.error().remedy.empty()) {
      report.status.error().remedy = fmt::format(
          "{} of {} kernels are judged; to continue: cupel suite run "
          "--resume {}",
          counts.done, counts.total, folder_.string());
    }
    return report;
  }

  SuiteRunOptions options_;
  PartEvents events_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> pass_on_{options_.common.stop,
                                                     [this] { stop_.request_stop(); }};
  fs::path folder_, tasks_root_;
  std::optional<archive::SuiteStore> store_;
  archive::SuiteInfo info_;
  std::vector<archive::SuiteItem> pending_;
  std::map<std::string, std::string> waiting_;  // item id to group
  report::Eta eta_;
  size_t workers_ = 1;
};

}  // namespace

Result<SuiteRunReport> RunSuite(const SuiteRunOptions& options, Events& events) {
  return SuiteRun(options, events).Run();
}

}  // namespace cupel::app
