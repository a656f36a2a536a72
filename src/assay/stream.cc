// SPDX-License-Identifier: Apache-2.0
#include "assay/stream.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/lanes.h"

namespace cupel::assay {
namespace {

constexpr size_t kAheadOfALane = 8;  // built candidates that wait, per lane

struct Built {
  size_t job = 0;
  Result<Candidate> candidate;
  std::optional<Judged> emulated = std::nullopt;
};

/// True if no GPU needs to look at it.
bool IsDecided(const Built& built) {
  return built.emulated && built.emulated->verdict.decision == records::Decision::kRejected;
}

/// What jobs with common cases have in common.
using Group = std::pair<const task::Task*, task::Direction>;

Group GroupOf(const Job& job) { return {job.question.task, job.question.direction}; }

/// Built candidates. Compilers wait if too many candidates wait for a lane.
class BuiltList {
 public:
  BuiltList(size_t jobs, size_t most_waiting) : left_(jobs), most_waiting_(most_waiting) {}

  /// One job needs no lane.
  void Leave() {
    const std::lock_guard lock(mutex_);
    --left_;
    changed_.notify_all();
  }

  void Add(Built built, const Group& group) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() < most_waiting_; });
    built_.push_back(std::move(built));
    waiting_.push_back({&built_.back(), group});
    --left_;
    changed_.notify_all();
  }

  /// Waits until a candidate waits for a lane, preferably one of `group`, and gives it this place,
  /// if the place has none. The pointer stays valid. Null: no candidate is left for it.
  Built* At(size_t place, const std::optional<Group>& group = {}) {
    std::unique_lock lock(mutex_);
    if (const auto known = places_.find(place); known != places_.end()) return known->second;
    changed_.wait(lock, [&] { return !waiting_.empty() || left_ == 0; });
    if (waiting_.empty()) return nullptr;
    auto next =
        std::ranges::find_if(waiting_, [&](const Waiting& one) { return one.group == group; });
    if (next == waiting_.end()) next = waiting_.begin();
    Built* built = next->built;
    waiting_.erase(next);
    places_[place] = built;
    changed_.notify_all();
    return built;
  }

 private:
  struct Waiting {
    Built* built;
    std::optional<Group> group;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Built> built_;
  std::deque<Waiting> waiting_;
  std::map<size_t, Built*> places_;
  size_t left_;  // jobs that compilers have not finished
  size_t most_waiting_;
};

/// Builds a candidate and judges it on the emulator, if there is one.
Built Prepare(size_t number, const Job& job, Assay* emulator) {
  Built built{number, job.build()};
  const auto& question = job.question.emulator;
  if (emulator == nullptr || question == nullptr || !built.candidate) return built;
  auto judged = emulator->Judge(*built.candidate, question->question);
  if (judged) {
    built.emulated = std::move(*judged);
  } else {
    built.candidate = tl::unexpected<Error>(std::move(judged.error()));
  }
  return built;
}

Result<Judged> JudgeBuilt(const Job& job, Built& built, const Lane& lane) {
  if (!built.emulated) return lane.assay->Judge(*built.candidate, job.question);
  // Another lane may have to try it again.
  return lane.assay->JudgeAfter(*built.candidate, job.question, *built.emulated);
}

Result<JobResult> RunJob(const Job& job, Built& built, const Lane& lane) {
  const auto start = std::chrono::steady_clock::now();
  const Candidate& candidate = *built.candidate;
  JobResult result;
  result.lane = lane.name;
  TRY_ASSIGN(result.judged, JudgeBuilt(job, built, lane));
  for (const task::Setting* setting : Chosen(job.question)) {
    if (lane.bench == nullptr) break;
    if (!setting->derived.empty()) continue;  // the task does not list these sizes
    if (lane.times_single_settings && setting->kind != task::SettingKind::kSingle) continue;
    const auto& reports = result.judged.verdict.settings;
    const bool right = std::any_of(reports.begin(), reports.end(), [&](const auto& report) {
      return report.id == setting->id && report.passed();
    });
    if (!right || !result.judged.verdict.accepted()) continue;
    const KernelToTime kernel{job.kernel.filename().string(), &candidate};
    TRY_ASSIGN(records::SettingTimes times, TimeSetting(*lane.parts, job.question, *setting,
                                                        std::span(&kernel, 1), *lane.bench));
    result.times.push_back(std::move(times));
  }
  result.seconds =
      SecondsSince(start) + (built.emulated ? built.emulated->verdict.total_seconds : 0);
  return result;
}

JobResult Decided(Judged judged) {
  JobResult result;
  result.lane = "emulator";
  result.seconds = judged.verdict.total_seconds;
  result.judged = std::move(judged);
  return result;
}

/// The jobs of a group one after the other, the groups in the order of their first jobs. If several
/// `threads` compute cases, each has its own group, and they take turns.
std::vector<size_t> OrderOf(std::span<const Job> jobs, size_t threads) {
  std::map<Group, size_t> numbers;
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto [known, fresh] = numbers.emplace(GroupOf(jobs[i]), groups.size());
    if (fresh) groups.emplace_back();
    groups[known->second].push_back(i);
  }
  std::vector<size_t> order;
  order.reserve(jobs.size());
  for (size_t first = 0; first < groups.size(); first += threads) {
    const auto some = std::span(groups).subspan(first, std::min(threads, groups.size() - first));
    const size_t longest =
        std::ranges::max_element(some, {}, [](const auto& group) { return group.size(); })->size();
    for (size_t turn = 0; turn < longest; ++turn) {
      for (const std::vector<size_t>& group : some) {
        if (turn < group.size()) order.push_back(group[turn]);
      }
    }
  }
  return order;
}

}  // namespace

Status RunStream(std::span<const Job> jobs, std::span<const Lane> lanes, const Builders& builders,
                 const std::function<void(size_t job, Result<JobResult> result)>& done,
                 const std::stop_token& stop) {
  const std::vector<size_t> order = OrderOf(jobs, std::max<size_t>(builders.emulators.size(), 1));
  std::vector<std::optional<Group>> last(lanes.size());  // the group of a lane's last job
  const auto cancelled = [] { return Fail(ErrorCode::kCancelled, "interrupted"); };
  BuiltList list(jobs.size(), kAheadOfALane * lanes.size());
  std::mutex done_mutex;
  const auto end = [&](Built& built, Result<JobResult> result) {
    built.candidate = {};  // frees its memory
    built.emulated.reset();
    const std::lock_guard lock(done_mutex);
    done(built.job, std::move(result));
  };
  const auto build = [&](size_t thread, size_t place) -> Status {
    const size_t job = order[place];
    Assay* emulator = builders.emulators.empty() ? nullptr : builders.emulators[thread];
    Built built = stop.stop_requested() ? Built{job, Result<Candidate>(cancelled())}
                                        : Prepare(job, jobs[job], emulator);
    if (built.candidate && !IsDecided(built)) {
      list.Add(std::move(built), GroupOf(jobs[job]));
      return {};
    }
    auto result = built.candidate ? Result<JobResult>(Decided(std::move(*built.emulated)))
                                  : tl::unexpected<Error>(built.candidate.error());
    end(built, std::move(result));
    list.Leave();
    return {};
  };
  const auto judge = [&](size_t lane, size_t place) -> Status {
    Built* built = list.At(place, last[lane]);
    if (built == nullptr) return {};
    last[lane] = GroupOf(jobs[built->job]);
    if (stop.stop_requested()) return cancelled();
    TRY_ASSIGN(JobResult result, RunJob(jobs[built->job], *built, lanes[lane]));
    end(*built, std::move(result));
    return {};
  };
  std::thread compilers([&] { (void)ForEachOnLanes(builders.threads, jobs.size(), build); });
  TryOnLanes(lanes.size(), jobs.size(), judge, [&](size_t place, Error error) {
    end(*list.At(place), tl::unexpected<Error>(std::move(error)));
  });
  compilers.join();
  if (stop.stop_requested()) return cancelled();
  return {};
}

}  // namespace cupel::assay
