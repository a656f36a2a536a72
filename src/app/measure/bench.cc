// SPDX-License-Identifier: Apache-2.0
#include "app/measure/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <mutex>
#include <optional>
#include <set>

#include "app/candidate.h"
#include "app/ceilings.h"
#include "app/lanes.h"
#include "app/session.h"
#include "base/lanes.h"
#include "base/printable.h"
#include "base/version.h"
#include "oracle/baseline_cache.h"
#include "os/folders.h"
#include "report/bench_parts.h"

namespace cupel::app {
namespace {

/// Display names. Kernels with the same file name also get their folder's name, then a number.
std::vector<std::string> NamesOf(std::vector<std::filesystem::path> kernels) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (auto& kernel : kernels) {
    if (!kernel.has_filename()) kernel = kernel.parent_path();  // "folder/"
  }
  for (const auto& kernel : kernels) {
    std::string name = kernel.filename().string();
    const bool alone = std::count_if(kernels.begin(), kernels.end(), [&](const auto& other) {
                         return other.filename() == kernel.filename();
                       }) == 1;
    if (!alone) name = (kernel.parent_path().filename() / kernel.filename()).string();
    for (int copy = 2; taken.count(name) > 0; ++copy) {
      name = fmt::format("{} ({})", kernel.filename().string(), copy);
    }
    taken.insert(name);
    names.push_back(std::move(name));
  }
  return names;
}

class BenchRun {
 public:
  BenchRun(const BenchOptions& options, Events& events) : options_(options), events_(events) {
    if (options_.common.device == "auto") options_.common.device = "gpu";
  }

  Result<records::Bench> Run() {
    if (options_.common.device == "emu") {
      return Fail(
          ErrorCode::kUnsupported, "unsupported: the emulator estimates times, it does not measure",
          "use --device gpu on a machine with an NVIDIA GPU, or cupel profile --device emu");
    }
    TRY_ASSIGN(task::Task task, LoadTarget(options_.target, options_.common));
    task_.emplace(std::move(task));
    TRY_ASSIGN(timing_.baselines, BaselinesOf(options_.baselines, options_.baseline_files, *task_));
    // The compilers and the GPU workers start in parallel.
    auto building = std::async(std::launch::async, [this] { return BuildAll(); });
    TRY(OpenGpus());
    timing_.sets = options_.sets;
    timing_.energy_seconds = options_.energy ? assay::kEnergySeconds : 0;
    timing_.measure.most = options_.rounds;
    timing_.measure.least = std::min(timing_.measure.least, options_.rounds);
    events_.Show(Progress{"measuring the GPU's ceilings"});
    TRY_ASSIGN(timing_.ceilings, CeilingsOf(lanes_[0]->engine()));
    report_.gpu = timing_.ceilings.gpu;
    report_.ceilings = timing_.ceilings;
    report_.task = task_->name;
    report_.direction = DirectionOf(options_.target);
    report_.cupel = kVersion;
    TRY(building.get());
    for (const assay::Candidate& candidate : candidates_) ReportNotes(candidate, events_);
    TRY(JudgeAll());
    TRY(TimeAll());
    TRY(CacheBaselines());
    return std::move(report_);
  }

 private:
  Status OpenGpus() {
    auto lanes = OpenLanes(options_.common, options_.compile, events_);
    if (lanes) {
      lanes_ = std::move(*lanes);
      return {};
    }
    Error error = lanes.error();
    // Do not suggest the emulator: bench needs a GPU.
    if (error.remedy.find("--device emu") != std::string::npos) {
      error.remedy = "bench needs an NVIDIA GPU; cupel profile --device emu estimates without one";
    }
    return tl::unexpected<Error>(std::move(error));
  }

  Status BuildAll() {
    candidates_.resize(options_.kernels.size());
    return ForEachOnLanes(Cores(), candidates_.size(), [&](size_t, size_t i) -> Status {
      TRY_ASSIGN(candidates_[i],
                 BuildCandidate(options_.kernels[i], options_.common, options_.compile, events_));
      return {};
    });
  }

  Status JudgeAll() {
    const std::vector<std::string> names = NamesOf(options_.kernels);
    report_.kernels.resize(names.size());
    return ForEachOnLanes(lanes_.size(), names.size(), [&](size_t lane, size_t i) -> Status {
      assay::Question question = QuestionOf(*task_, options_.target, options_.common);
      MakeThorough(question);
      question = ForEngines(std::move(question), options_.target, options_.common);
      TRY_ASSIGN(assay::Judged judged, lanes_[lane]->assay().Judge(candidates_[i], question));
      report_.kernels[i] = {names[i], std::move(judged.verdict)};
      return {};
    });
  }

  /// Whether the kernel passed this setting. A kernel that was not accepted counts only if its
  /// rejection comes from a failed setting.
  static bool IsRight(const records::Verdict& verdict, const std::string& id) {
    bool right = false, wrong = false, some_failed = false;
    for (const records::Verdict* one : verdict.OfAllEngines()) {
      for (const records::SettingReport& setting : one->settings) {
        const bool failed = setting.status == records::SettingStatus::kFailed;
        right |= setting.id == id && setting.status == records::SettingStatus::kPassed;
        wrong |= setting.id == id && failed;
        some_failed |= failed;
      }
    }
    return right && !wrong && (some_failed || verdict.decision == records::Decision::kAccepted);
  }

  std::vector<assay::KernelToTime> RightAt(const std::string& id) const {
    std::vector<assay::KernelToTime> kernels;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (!IsRight(report_.kernels[i].verdict, id)) continue;
      kernels.push_back({report_.kernels[i].name, &candidates_[i]});
    }
    return kernels;
  }

  /// Times each setting on one GPU, together with its baselines. Only times that were measured side
  /// by side are comparable.
  Status TimeAll() {
    const assay::Question question = QuestionOf(*task_, options_.target, options_.common);
    std::vector<const task::Setting*> settings;
    for (const task::Setting* setting : assay::Chosen(question)) {
      if (!setting->derived.empty()) continue;  // the task does not list these sizes
      if (!RightAt(setting->id).empty()) settings.push_back(setting);
    }
    report_.settings.resize(settings.size());
    torch_.resize(lanes_.size());
    return ForEachOnLanes(lanes_.size(), settings.size(), [&](size_t lane, size_t i) -> Status {
      assay::BenchOptions options = timing_;
      if (!options.baselines.empty() && !torch_[lane]) {
        TRY_ASSIGN(torch_[lane], lanes_[lane]->StartBaselines());
        const std::lock_guard lock(mutex_);
        report_.torch = torch_[lane]->torch_version();
      }
      options.torch = torch_[lane].get();
      TRY_ASSIGN(report_.settings[i],
                 assay::TimeSetting(lanes_[lane]->parts(), question, *settings[i],
                                    RightAt(settings[i]->id), options));
      return {};
    });
  }

  /// Caches the baselines that were measured now, and reads the others from the cache.
  Status CacheBaselines() {
    TRY_ASSIGN(const auto cache_folder, os::CacheDir());
    const oracle::BaselineCache cache(cache_folder);
    const task::Direction direction = DirectionOf(options_.target);
    for (const records::SettingTimes& times : report_.settings) {
      const auto& settings = task_->SettingsOf(direction);
      const auto setting = std::find_if(settings.begin(), settings.end(),
                                        [&](const task::Setting& s) { return s.id == times.id; });
      if (setting == settings.end()) continue;
      for (const oracle::BaselineKind kind :
           {oracle::BaselineKind::kEager, oracle::BaselineKind::kCompile,
            oracle::BaselineKind::kMaxAutotune}) {
        const std::string name = oracle::Name(kind);
        const auto key =
            oracle::KeyOf(*task_, direction, *setting, kind, report_.gpu, times.torch_version);
        const auto timing =
            std::find_if(times.timings.begin(), times.timings.end(),
                         [&](const records::Timing& t) { return t.is_baseline && t.name == name; });
        if (timing == times.timings.end()) {
          if (auto medians = cache.Load(key)) {
            report_.remembered_baselines.push_back(
                {times.id, name, medians->cold_us, medians->taken_at});
          }
          continue;
        }
        if (timing->refused || timing->samples.cold.empty()) continue;
        oracle::BaselineMedians medians;
        medians.cold_us = timing->median.estimate;
        medians.warm_us = timing->warm_us;
        medians.host_us = timing->host_us;
        medians.samples = static_cast<int64_t>(timing->samples.cold.size());
        medians.how = timing->how;
        TRY(cache.Store(key, medians));
      }
    }
    return {};
  }

  BenchOptions options_;
  Events& events_;
  std::optional<task::Task> task_;
  std::vector<std::unique_ptr<Session>> lanes_;
  std::vector<std::unique_ptr<oracle::Baselines>> torch_;  // one for each lane
  std::mutex mutex_;                                       // of report_.torch
  std::vector<assay::Candidate> candidates_;
  assay::BenchOptions timing_;
  records::Bench report_;
};

}  // namespace

Result<std::vector<oracle::Baseline>> BaselinesOf(const std::string& names,
                                                  const std::vector<std::string>& files,
                                                  const task::Task& task) {
  std::vector<oracle::Baseline> known = oracle::UsualBaselines(task);
  known.push_back({oracle::BaselineKind::kMaxAutotune});
  known.push_back({oracle::BaselineKind::kProbe});
  std::vector<oracle::Baseline> chosen;
  // False: there is one of this name. A baseline that is named twice is timed once.
  const auto add = [&](const oracle::Baseline& one) {
    const bool is_new =
        std::ranges::find(chosen, one.Name(), &oracle::Baseline::Name) == chosen.end();
    if (is_new) chosen.push_back(one);
    return is_new;
  };
  std::string rest = names == "none" ? "" : names;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string name = rest.substr(0, comma);
    rest.erase(0, comma + 1);
    bool is_known = name == "named";
    for (const oracle::Baseline& one : known) {
      const bool in_group = name == "named" && one.kind == oracle::BaselineKind::kNamed;
      if (!in_group && name != one.Name()) continue;
      add(one);
      is_known = true;
    }
    if (!is_known) {
      std::string all = "eager, compile, max-autotune, named";
      for (const task::NamedBaseline& named : task.named_baselines) all += ", " + named.name;
      return Fail(ErrorCode::kInvalidArgument, fmt::format("unknown baseline {}", Printable(name)),
                  fmt::format("choose from {}, or none", all));
    }
  }
  for (const std::string& file : files) {
    TRY_ASSIGN(task::NamedBaseline named, task::ParseNamedBaseline(file));
    const oracle::Baseline one{oracle::BaselineKind::kNamed, std::move(named)};
    if (!add(one)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("there are two baselines called {}", one.Name()),
                  "give one of the functions another name");
    }
  }
  return chosen;
}

Result<records::Bench> Bench(const BenchOptions& options, Events& events) {
  return BenchRun(options, events).Run();
}

}  // namespace cupel::app
