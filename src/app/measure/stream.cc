// SPDX-License-Identifier: Apache-2.0
#include "app/measure/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "app/candidate.h"
#include "app/ceilings.h"
#include "app/kernel_list.h"
#include "app/lanes.h"
#include "app/rough_work.h"
#include "assay/stream.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/lanes.h"
#include "records/json.h"

namespace cupel::app {
namespace {

Json ErrorJson(const Error& error) {
  return {{"message", error.message}, {"remedy", error.remedy}};
}

/// The seconds of each stage of judging. The seconds of timing are with the times.
Json StageSeconds(const records::Verdict& verdict) {
  double oracle = 0, record = 0, engine = 0, judge = 0;
  for (const records::SettingReport& setting : verdict.settings) {
    oracle += setting.seconds.oracle;
    record += setting.seconds.record;
    engine += setting.seconds.engine;
    judge += setting.seconds.judge;
  }
  Json seconds{{"oracle", oracle}, {"record", record}, {"engine", engine}, {"judge", judge}};
  for (const records::Verdict& other : verdict.other_engines) {
    seconds["emulator"] = other.total_seconds;
  }
  return seconds;
}

class StreamRun {
 public:
  StreamRun(const StreamOptions& options, Events& events, const OnStreamed& streamed)
      : options_(options), events_(events), streamed_(streamed) {}

  Result<StreamReport> Run() {
    TRY(ReadList());
    TRY(OpenAllLanes());
    TRY(PrepareLanes());
    TRY(PrepareBuilders());
    TRY(OpenOutput());
    const auto start = std::chrono::steady_clock::now();
    TRY(assay::RunStream(
        jobs_, assay_lanes_, builders_,
        [&](size_t job, Result<assay::JobResult> result) { Take(job, std::move(result)); },
        options_.common.stop));
    if (write_error_) return tl::unexpected<Error>(*write_error_);
    report_.lanes = lanes_.size();
    report_.seconds = SecondsSince(start);
    return std::move(report_);
  }

 private:
  Status ReadList() {
    TRY_ASSIGN(distributions_, DistributionsOf(options_.distributions));
    TRY(ReadKernelList(options_.list, [this](const ListedKernel& listed) { return Add(listed); }));
    if (!jobs_.empty()) {
      SortJobs();
      return {};
    }
    return Fail(ErrorCode::kInvalidArgument, options_.list.string() + " names no kernel",
                "write one line of JSON for each kernel: {\"kernel\": \"k.cu\", \"task\": "
                "\"mnist_linear\"}");
  }

  /// The tasks with the largest settings first: PyTorch computes their cases longest, so a lane
  /// that gets one last would work alone.
  void SortJobs() {
    std::ranges::stable_sort(jobs_, std::greater{}, [](const assay::Job& job) {
      const assay::Question& question = job.question;
      return RoughWork(question.task->SettingsOf(question.direction));
    });
  }

  Status Add(const ListedKernel& listed) {
    Target target;
    target.settings = options_.settings;
    target.trials = options_.trials;
    target.task = listed.task;
    target.backward = listed.direction == task::Direction::kBackward;
    const std::string key = fmt::format("{}\n{}", target.task, target.backward);
    auto known = tasks_.find(key);
    if (known == tasks_.end()) {
      TRY_ASSIGN(task::Task task, LoadTarget(target, options_.common));
      known = tasks_.emplace(key, std::move(task)).first;
    }
    const task::Task& task = known->second;
    assay::Job job;
    job.kernel = listed.kernel;
    job.question = QuestionOf(task, target, options_.common);
    job.question.distributions = distributions_;
    job.question.shadows = options_.shadow;
    job.question.integers = options_.exact;
    job.question.explores = options_.explore && job.question.kinds.empty();
    // Candidates of a list cannot learn from each other's verdicts.
    job.question.seed_is_secret = !options_.common.seed;
    job.question.seed = options_.common.seed.value_or(secret_seed_);
    job.question = ForEngines(std::move(job.question), target, options_.common);
    job.build = [this, listed] {
      Compile compile = options_.compile;
      compile.sources = listed.sources;
      return BuildCandidate(listed.kernel, options_.common, compile, ignored_);
    };
    jobs_.push_back(std::move(job));
    return {};
  }

  /// Lanes of a GPU judge while another one's cases are computed or its kernels timed. The GPU's
  /// lock (gpu/gpu_lock.h) keeps measurements alone.
  static constexpr size_t kLanesOfAGpu = 4;
  static constexpr int kTorchThreads = 4;

  /// On the emulator, one lane for every two cores.
  Status OpenAllLanes() {
    Common common = options_.common;
    common.engines = "gpu";  // the builders have the emulators
    if (!OnEmulator(common)) {
      common.threads = kTorchThreads;
      TRY_ASSIGN(lanes_, OpenLanes(common, options_.compile, ignored_));
      const size_t more =
          std::min(kLanesOfAGpu, std::max<size_t>(Cores() / (kTorchThreads * lanes_.size()), 1)) -
          1;
      std::mutex mutex;
      return ForEachOnLanes(more, more, [&](size_t, size_t) -> Status {
        TRY_ASSIGN(auto lanes, OpenLanes(common, options_.compile, ignored_));
        const std::lock_guard lock(mutex);
        std::ranges::move(lanes, std::back_inserter(lanes_));
        return {};
      });
    }
    common.threads = common.torch_threads = 2;
    for (size_t i = 0; i < std::min(jobs_.size(), std::max<size_t>(Cores() / 2, 1)); ++i) {
      TRY_ASSIGN(auto lane, Session::Create(common, options_.compile, ignored_));
      lanes_.push_back(std::move(lane));
    }
    return {};
  }

  /// Beside GPUs, each core but those that feed the lanes has an emulator.
  Status PrepareBuilders() {
    builders_.threads = Cores();
    if (!EmulatesBesideGpu(options_.common)) return {};
    const size_t taken = 2 * lanes_.size();
    builders_.threads = Cores() > taken ? Cores() - taken : 1;
    Common common = options_.common;
    common.device = "emu";
    common.model = lanes_[0]->engine().Device().name;
    common.threads = common.torch_threads = 1;
    for (size_t i = 0; i < std::min(builders_.threads, jobs_.size()); ++i) {
      TRY_ASSIGN(auto emulator, Session::Create(common, options_.compile, ignored_));
      builders_.emulators.push_back(&emulator->assay());
      emulators_.push_back(std::move(emulator));
    }
    return {};
  }

  Status PrepareLanes() {
    const bool timed = lanes_[0]->engine().Name() == "gpu";
    bench_.resize(lanes_.size());
    for (size_t i = 0; i < lanes_.size(); ++i) {
      assay::Lane lane;
      lane.assay = &lanes_[i]->assay();
      lane.parts = &lanes_[i]->parts();
      lane.name = fmt::format("{} {}", lanes_[i]->engine().Device().full_name, i);
      if (timed) {
        TRY_ASSIGN(bench_[i].ceilings, CeilingsOf(lanes_[i]->engine()));
        lane.bench = &bench_[i];
        lane.times_single_settings = options_.timed == "single" && options_.settings == "all";
      }
      assay_lanes_.push_back(std::move(lane));
    }
    return {};
  }

  Status OpenOutput() {
    if (options_.output.empty()) return {};
    output_.reset(std::fopen(options_.output.c_str(), "we"));
    if (output_ != nullptr) return {};
    return Fail(ErrorCode::kIo, "cannot write " + options_.output.string(),
                "choose another file with --output");
  }

  void Take(size_t index, Result<assay::JobResult> result) {
    const assay::Job& job = jobs_[index];
    Json json{{"schema", "cupel.stream/1"},
              {"kernel", job.kernel.string()},
              {"task", job.question.task->name},
              {"direction", std::string(task::Name(job.question.direction))}};
    std::string verdict = "error", detail;
    if (result) {
      const records::Verdict& judged = result->judged.verdict;
      verdict = records::Name(judged.decision);
      json["reasons"] = Json::array();
      for (const records::Reason& reason : judged.reasons) {
        json["reasons"].push_back({{"code", reason.code}, {"message", reason.Text()}});
      }
      if (!judged.reasons.empty()) detail = judged.reasons.front().code;
      json["settings"] = Json::array();
      for (const records::SettingReport& setting : judged.settings) {
        json["settings"].push_back({{"id", setting.id}, {"status", records::Name(setting.status)}});
      }
      json["times"] = Json::array();
      for (const records::SettingTimes& times : result->times) {
        Json brief = records::ToJson(times);
        for (Json& timing : brief["timings"]) timing.erase("samples_us");
        json["times"].push_back(std::move(brief));
        for (const records::Timing& timing : times.timings) {
          if (timing.failed()) verdict = "rejected";
          if (timing.refused) {
            detail = timing.refused->code;
          } else {
            detail +=
                fmt::format("{}{:.2f} us", detail.empty() ? "" : ", ", timing.median.estimate);
          }
        }
      }
      json["seconds"] = result->seconds;
      json["stage_seconds"] = StageSeconds(judged);
      json["lane"] = result->lane;
    } else {
      json["error"] = ErrorJson(result.error());
      detail = result.error().message;
    }
    json["verdict"] = verdict;
    ++report_.counts[verdict];
    ++report_.candidates;
    Write(json);
    streamed_({job.kernel, job.question.task->name, verdict, detail});
    events_.Show({fmt::format("{} of {} candidates", report_.candidates, jobs_.size())});
  }

  void Write(const Json& json) {
    if (output_ == nullptr || write_error_) return;
    const std::string line = DumpJson(json) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), output_.get()) == line.size() &&
        std::fflush(output_.get()) == 0) {
      return;
    }
    write_error_ = Error{ErrorCode::kIo, "cannot write to " + options_.output.string(),
                         "check the free space on the disk"};
  }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  const StreamOptions& options_;
  Events& events_;
  const OnStreamed& streamed_;
  Events ignored_;                           // the steps of the lanes
  std::map<std::string, task::Task> tasks_;  // a map, because jobs keep pointers to tasks
  std::vector<task::Distribution> distributions_;
  std::vector<assay::Job> jobs_;
  std::vector<std::unique_ptr<Session>> lanes_, emulators_;
  assay::Builders builders_;
  const uint64_t secret_seed_ = EntropySeed();
  std::vector<assay::BenchOptions> bench_;
  std::vector<assay::Lane> assay_lanes_;
  std::unique_ptr<std::FILE, Close> output_;
  std::optional<Error> write_error_;
  StreamReport report_;
};

}  // namespace

Result<StreamReport> Stream(const StreamOptions& options, Events& events,
                            const OnStreamed& streamed) {
  return StreamRun(options, events, streamed).Run();
}

}  // namespace cupel::app
