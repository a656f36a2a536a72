// `cupel bench`: times kernels against eager PyTorch, torch.compile and each other.
// SPDX-License-Identifier: Apache-2.0
#include "assay/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "app/candidate.h"
#include "app/ceilings.h"
#include "app/lanes.h"
#include "app/session.h"
#include "base/version.h"
#include "cli/bench_text.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "judge/verdict_text.h"
#include "os/fd.h"

namespace cupel::cli {
namespace {

/// Display names. Kernels with the same file name also get their folder's name, then a number.
std::vector<std::string> NamesOf(const std::vector<std::filesystem::path>& kernels) {
  std::vector<std::string> names;
  std::set<std::string> taken;
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

class Bench {
 public:
  explicit Bench(const BenchCommand& command) : command_(command), view_(command.show.quiet) {
    if (command_.common.device == "auto") command_.common.device = "gpu";
  }

  Result<int> Run() {
    if (command_.common.device == "emu") {
      return Fail(
          ErrorCode::kUnsupported, "unsupported: the emulator estimates times, it does not measure",
          "use --device gpu on a machine with an NVIDIA GPU, or cupel profile --device emu");
    }
    TRY_ASSIGN(task::Task task, LoadTarget(command_.target, command_.common));
    task_.emplace(std::move(task));
    TRY_ASSIGN(const auto kinds, BaselinesOf(command_.baselines));
    // The compilers and the GPU workers start in parallel.
    auto building = std::async(std::launch::async, [this] { return BuildAll(); });
    TRY(OpenGpus());
    options_.baselines = kinds;
    options_.sets = command_.sets;
    options_.energy_seconds = command_.energy ? kEnergySeconds : 0;
    options_.measure.most = command_.rounds;
    options_.measure.least = std::min(options_.measure.least, command_.rounds);
    Show(assay::Progress{"measuring the GPU's ceilings", 0, 0});
    TRY_ASSIGN(options_.ceilings, app::CeilingsOf(lanes_[0]->engine()));
    report_.gpu = options_.ceilings.gpu;
    report_.ceilings = options_.ceilings;
    report_.task = task_->name;
    report_.direction = task::Name(DirectionOf(command_.target));
    TRY(building.get());
    TRY(JudgeAll());
    TRY(TimeAll());
    TRY(CacheBaselines());
    view_.End();
    BenchTextOptions text;
    text.colour = ::isatty(STDOUT_FILENO) != 0;
    fmt::print("{}", BenchText(report_, text));
    TRY(WriteJson(command_.show.json, BenchJson(report_)));
    return ExitStatus();
  }

 private:
  static constexpr double kEnergySeconds = 0.5;

  Status OpenGpus() {
    auto lanes = OpenLanes(command_.common, command_.compile, view_);
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

  void Show(const assay::Progress& progress) {
    const std::lock_guard lock(showing_);
    view_.Show(progress);
  }

  Status BuildAll() {
    candidates_.resize(command_.kernels.size());
    const size_t compilers = std::max(1u, std::thread::hardware_concurrency());
    return app::ForEachOnLanes(
        std::min(compilers, candidates_.size()), candidates_.size(),
        [&](size_t, size_t i) -> Status {
          TRY_ASSIGN(candidates_[i],
                     BuildCandidate(command_.kernels[i], *task_, DirectionOf(command_.target),
                                    command_.common, command_.compile, view_));
          return {};
        });
  }

  Status JudgeAll() {
    const std::vector<std::string> names = NamesOf(command_.kernels);
    report_.kernels.resize(names.size());
    return app::ForEachOnLanes(lanes_.size(), names.size(), [&](size_t lane, size_t i) -> Status {
      const assay::Question question = QuestionOf(*task_, command_.target, command_.common);
      TRY_ASSIGN(assay::Judged judged, lanes_[lane]->assay().Judge(candidates_[i], question));
      report_.kernels[i] = {names[i], std::move(judged.verdict)};
      return {};
    });
  }

  /// Whether the kernel passed this setting. A kernel that was not accepted counts only if its
  /// rejection comes from a failed setting.
  static bool IsRight(const judge::Verdict& verdict, const std::string& id) {
    bool right = false, some_failed = false;
    for (const judge::SettingReport& setting : verdict.settings) {
      if (setting.id == id) right = setting.status == "passed";
      some_failed = some_failed || setting.status == "failed";
    }
    return right && (some_failed || verdict.decision == judge::Decision::kAccepted);
  }

  std::vector<assay::KernelToTime> RightAt(const std::string& id) const {
    std::vector<assay::KernelToTime> kernels;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const auto* image = std::get_if<build::Image>(&candidates_[i].built);
      if (image == nullptr || !IsRight(report_.kernels[i].verdict, id)) continue;
      kernels.push_back({report_.kernels[i].name, image});
    }
    return kernels;
  }

  /// Times each setting on one GPU, together with its baselines. Only times that were measured side
  /// by side are comparable.
  Status TimeAll() {
    const assay::Question question = QuestionOf(*task_, command_.target, command_.common);
    std::vector<const task::Setting*> settings;
    for (const task::Setting* setting : assay::Chosen(question)) {
      if (!setting->derived.empty()) continue;  // the task does not list these sizes
      if (!RightAt(setting->id).empty()) settings.push_back(setting);
    }
    report_.settings.resize(settings.size());
    torch_.resize(lanes_.size());
    return app::ForEachOnLanes(
        lanes_.size(), settings.size(), [&](size_t lane, size_t i) -> Status {
          assay::BenchOptions options = options_;
          if (!options.baselines.empty() && !torch_[lane]) {
            TRY_ASSIGN(torch_[lane], lanes_[lane]->StartBaselines());
            const std::lock_guard lock(showing_);
            report_.torch = torch_[lane]->torch_version();
          }
          options.torch = torch_[lane].get();
          TRY_ASSIGN(
              report_.settings[i],
              assay::TimeSetting(lanes_[lane]->parts(), question, *settings[i],
                                 RightAt(settings[i]->id), options, [&](const std::string& stage) {
                                   Show(assay::Progress{settings[i]->id + " " + stage, 0, 0});
                                 }));
          return {};
        });
  }

  /// Caches the baselines that were measured now, and reads the others from the cache.
  Status CacheBaselines() {
    TRY_ASSIGN(const auto cache_folder, os::CacheDir());
    const oracle::BaselineCache cache(cache_folder);
    const task::Direction direction = DirectionOf(command_.target);
    for (const assay::SettingTimes& times : report_.settings) {
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
                         [&](const assay::Timing& t) { return t.is_baseline && t.name == name; });
        if (timing == times.timings.end()) {
          if (auto medians = cache.Load(key)) {
            report_.cached_baselines.push_back({times.id, name, std::move(*medians)});
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

  /// The exit status of the worst kernel.
  int ExitStatus() const {
    int status = 0;
    for (const BenchedKernel& kernel : report_.kernels) {
      status = std::max(status, judge::ExitStatus(kernel.verdict.decision));
    }
    for (const assay::SettingTimes& setting : report_.settings) {
      for (const assay::Timing& timing : setting.timings) {
        if (timing.refused && !timing.is_baseline) status = std::max(status, 1);
      }
    }
    return status;
  }

  BenchCommand command_;
  ProgressView view_;
  std::optional<task::Task> task_;
  std::vector<std::unique_ptr<app::Session>> lanes_;
  std::vector<std::unique_ptr<oracle::Baselines>> torch_;  // one for each lane
  std::mutex showing_;
  std::vector<assay::Candidate> candidates_;
  assay::BenchOptions options_;
  BenchReport report_;
};

}  // namespace

Result<int> Run(const BenchCommand& command) { return Bench(command).Run(); }

}  // namespace cupel::cli
