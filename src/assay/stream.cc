// SPDX-License-Identifier: Apache-2.0
#include "assay/stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace cupel::assay {
namespace {

constexpr int kMostErrors = 3;       // consecutive errors of a lane
constexpr size_t kAheadOfALane = 8;  // built candidates that wait, per lane

struct Built {
  size_t job = 0;
  Result<Candidate> candidate;
};

/// Built candidates between compilers and lanes. Ends after all jobs were added.
class Queue {
 public:
  Queue(size_t jobs, size_t most) : left_(jobs), most_(most) {}

  void Put(Built built) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_.size() < most_; });
    ready_.push_back(std::move(built));
    --left_;
    changed_.notify_all();
  }

  std::optional<Built> Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || left_ == 0; });
    if (ready_.empty()) return std::nullopt;
    Built built = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return built;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Built> ready_;
  size_t left_, most_;
};

Result<JobResult> RunJob(const Job& job, const Candidate& candidate, const Lane& lane) {
  const auto start = std::chrono::steady_clock::now();
  JobResult result;
  result.lane = lane.name;
  TRY_ASSIGN(result.judged, lane.assay->Judge(candidate, job.question));
  const auto* image = std::get_if<build::Image>(&candidate.built);
  for (const task::Setting* setting : Chosen(job.question)) {
    if (image == nullptr || lane.bench == nullptr) break;
    if (!setting->derived.empty()) continue;  // the task does not list these sizes
    const auto& reports = result.judged.verdict.settings;
    const bool right = std::any_of(reports.begin(), reports.end(), [&](const auto& report) {
      return report.id == setting->id && report.status == "passed";
    });
    if (!right || result.judged.verdict.decision != judge::Decision::kAccepted) continue;
    const KernelToTime kernel{job.kernel.filename().string(), image};
    TRY_ASSIGN(SettingTimes times, TimeSetting(*lane.parts, job.question, *setting,
                                               std::span(&kernel, 1), *lane.bench));
    result.times.push_back(std::move(times));
  }
  result.seconds = SecondsSince(start);
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

Status RunStream(std::span<const Job> jobs, std::span<const Lane> lanes, int builders,
                 const std::function<void(size_t job, Result<JobResult> result)>& done,
                 const std::stop_token& stop) {
  Queue queue(jobs.size(), kAheadOfALane * lanes.size());
  const std::vector<size_t> order = OrderOf(jobs);
  std::atomic<size_t> next{0};
  std::mutex done_mutex;
  const auto cancelled = [] { return Fail(ErrorCode::kCancelled, "interrupted"); };
  const auto build = [&] {
    for (size_t place = next++; place < jobs.size(); place = next++) {
      const size_t job = order[place];
      // Cancelled jobs also pass through the queue, so that no lane waits forever.
      queue.Put({job, stop.stop_requested() ? Result<Candidate>(cancelled()) : jobs[job].build()});
    }
  };
  std::atomic<size_t> working_lanes{lanes.size()};
  const auto judge = [&](const Lane& lane) {
    int errors = 0;  // consecutive
    while (auto built = queue.Take()) {
      Result<JobResult> result = tl::unexpected<Error>(Error{});
      if (!built->candidate) {
        result = tl::unexpected<Error>(built->candidate.error());
      } else if (stop.stop_requested()) {
        result = cancelled();
      } else {
        result = RunJob(jobs[built->job], *built->candidate, lane);
      }
      const bool lane_failed = !result && built->candidate &&
                               (result.error().code == ErrorCode::kEnvironment ||
                                result.error().code == ErrorCode::kInternal);
      errors = lane_failed ? errors + 1 : 0;
      {
        const std::lock_guard lock(done_mutex);
        done(built->job, std::move(result));
      }
      // A GPU that always fails would be fast and would therefore get most jobs.
      if (errors < kMostErrors) continue;
      if (working_lanes.fetch_sub(1) > 1) return;
      ++working_lanes;
      errors = 0;
    }
  };
  std::vector<std::thread> threads;
  const auto compilers = std::min(static_cast<size_t>(std::max(1, builders)), jobs.size());
  threads.reserve(compilers + lanes.size());
  for (size_t i = 0; i < compilers; ++i) threads.emplace_back(build);
  for (const Lane& lane : lanes) threads.emplace_back(judge, std::cref(lane));
  for (std::thread& thread : threads) thread.join();
  if (stop.stop_requested()) return cancelled();
  return {};
}

}  // namespace cupel::assay
