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

/// Built candidates, in the order in which the compilers finish them. Compilers wait if too many
/// candidates wait for a lane.
class BuiltList {
 public:
  explicit BuiltList(size_t most_waiting) : most_waiting_(most_waiting) {}

  void Add(Built built) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return built_.size() < taken_ + most_waiting_; });
    built_.push_back(std::move(built));
    changed_.notify_all();
  }

  /// Waits until it is built. The reference stays valid.
  Built& At(size_t place) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return built_.size() > place; });
    taken_ = std::max(taken_, place + 1);
    changed_.notify_all();
    return built_[place];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Built> built_;
  size_t taken_ = 0, most_waiting_;
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

/// Groups jobs with the same task and direction, each group at the position of its first job.
std::vector<size_t> OrderOf(std::span<const Job> jobs) {
  std::map<std::pair<const task::Task*, task::Direction>, size_t> first;
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Question& question = jobs[i].question;
    places.emplace_back(
        first.emplace(std::pair(question.task, question.direction), i).first->second, i);
  }
  std::sort(places.begin(), places.end());
  std::vector<size_t> order;
  order.reserve(places.size());
  for (const auto& [group, job] : places) order.push_back(job);
  return order;
}

}  // namespace

Status RunStream(std::span<const Job> jobs, std::span<const Lane> lanes, const Builders& builders,
                 const std::function<void(size_t job, Result<JobResult> result)>& done,
                 const std::stop_token& stop) {
  const std::vector<size_t> order = OrderOf(jobs);
  const auto cancelled = [] { return Fail(ErrorCode::kCancelled, "interrupted"); };
  BuiltList list(kAheadOfALane * lanes.size());
  const auto build = [&](size_t thread, size_t place) -> Status {
    // Cancelled jobs are listed too, so that no lane waits forever.
    const size_t job = order[place];
    if (stop.stop_requested()) {
      list.Add({job, Result<Candidate>(cancelled())});
      return {};
    }
    Assay* emulator = builders.emulators.empty() ? nullptr : builders.emulators[thread];
    list.Add(Prepare(job, jobs[job], emulator));
    return {};
  };
  std::mutex done_mutex;
  const auto end = [&](Built& built, Result<JobResult> result) {
    built.candidate = {};  // frees its memory
    built.emulated.reset();
    const std::lock_guard lock(done_mutex);
    done(built.job, std::move(result));
  };
  const auto judge = [&](size_t lane, size_t place) -> Status {
    Built& built = list.At(place);
    if (!built.candidate) {  // no lane's fault
      end(built, tl::unexpected<Error>(built.candidate.error()));
      return {};
    }
    if (IsDecided(built)) {
      end(built, Decided(std::move(*built.emulated)));
      return {};
    }
    if (stop.stop_requested()) return cancelled();
    TRY_ASSIGN(JobResult result, RunJob(jobs[built.job], built, lanes[lane]));
    end(built, std::move(result));
    return {};
  };
  std::thread compilers([&] { (void)ForEachOnLanes(builders.threads, jobs.size(), build); });
  TryOnLanes(lanes.size(), jobs.size(), judge, [&](size_t place, Error error) {
    end(list.At(place), tl::unexpected<Error>(std::move(error)));
  });
  compilers.join();
  if (stop.stop_requested()) return cancelled();
  return {};
}

}  // namespace cupel::assay
