// `cupel bench`: how fast, against eager, torch.compile and each other.
// SPDX-License-Identifier: Apache-2.0
#include "assay/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <set>

#include "base/version.h"
#include "cli/bench_text.h"
#include "cli/ceilings.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "judge/verdict_text.h"
#include "os/fd.h"

namespace cupel::cli {
namespace {

/// Kernels of the same name are told apart by their folders, then by number.
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
  explicit Bench(const BenchCommand& command) : command_(command), view_(command.common.quiet) {
    if (command_.common.device == "auto") command_.common.device = "gpu";
  }

  Result<int> Run() {
    if (command_.common.device == "emu") {
      return Fail(
          ErrorCode::kUnsupported, "unsupported: the emulator estimates, it does not measure",
          "use --device gpu on a machine with an NVIDIA GPU, or cupel profile --device emu");
    }
    TRY_ASSIGN(task_, LoadTarget(command_.target));
    TRY_ASSIGN(const auto kinds, BaselinesOf(command_.baselines));
    TRY_ASSIGN(session_, Session::Create(command_.common, command_.compile,
                                         [&](const assay::Progress& p) { view_.Show(p); }));
    options_.baselines = kinds;
    options_.sets = command_.sets;
    options_.energy_seconds = command_.energy ? kEnergySeconds : 0;
    options_.measure.most = command_.rounds;
    options_.measure.least = std::min(options_.measure.least, command_.rounds);
    view_.Show(assay::Progress{"finding the GPU's ceilings", 0, 0});
    TRY_ASSIGN(options_.ceilings, CeilingsOf(session_->engine()));
    report_.gpu = options_.ceilings.gpu;
    report_.ceilings = options_.ceilings;
    report_.task = task_.name;
    report_.direction = task::Name(DirectionOf(command_.target));
    TRY(JudgeAll());
    TRY(TimeAll());
    view_.End();
    BenchTextOptions text;
    text.colour = ::isatty(STDOUT_FILENO) != 0;
    fmt::print("{}", BenchText(report_, text));
    TRY(WriteJson(command_.common.json, BenchJson(report_)));
    return ExitStatus();
  }

 private:
  static constexpr double kEnergySeconds = 0.5;

  Status JudgeAll() {
    const std::vector<std::string> names = NamesOf(command_.kernels);
    for (size_t i = 0; i < names.size(); ++i) {
      view_.Show(assay::Progress{"building " + names[i], 0, 0});
      TRY_ASSIGN(assay::Candidate candidate, session_->assay().Build(command_.kernels[i]));
      assay::Question question = QuestionOf(task_, command_.target, command_.common);
      TRY_ASSIGN(assay::Judged judged, session_->assay().Judge(candidate, question));
      report_.kernels.push_back({names[i], std::move(judged.verdict)});
      candidates_.push_back(std::move(candidate));
    }
    return {};
  }

  /// Right at this setting, and nothing else is wrong with it.
  bool IsRight(const judge::Verdict& verdict, const std::string& id) const {
    for (const judge::SettingReport& setting : verdict.settings) {
      if (setting.id == id) return setting.status == "passed";
    }
    return false;
  }

  Status TimeAll() {
    const assay::Question question = QuestionOf(task_, command_.target, command_.common);
    if (!options_.baselines.empty() && AnyRight()) {
      TRY_ASSIGN(torch_, session_->StartBaselines(command_.common));
      options_.torch = torch_.get();
      report_.torch = torch_->torch_version();
    }
    const auto settings = assay::Chosen(question);
    for (const task::Setting* setting : settings) {
      std::vector<assay::KernelToTime> kernels;
      for (size_t i = 0; i < candidates_.size(); ++i) {
        const auto* image = std::get_if<build::Image>(&candidates_[i].built);
        if (image == nullptr || !IsRight(report_.kernels[i].verdict, setting->id)) continue;
        kernels.push_back({report_.kernels[i].name, image});
      }
      if (kernels.empty()) continue;
      TRY_ASSIGN(auto times,
                 assay::TimeSetting(session_->parts(), question, *setting, kernels, options_,
                                    [&](const std::string& stage) {
                                      view_.Show(assay::Progress{setting->id + " " + stage, 0, 0});
                                    }));
      report_.settings.push_back(std::move(times));
    }
    return {};
  }

  bool AnyRight() const {
    return std::any_of(report_.kernels.begin(), report_.kernels.end(), [](const auto& kernel) {
      return kernel.verdict.decision == judge::Decision::kAccepted;
    });
  }

  /// That of the worst kernel.
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
  task::Task task_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<oracle::Baselines> torch_;
  std::vector<assay::Candidate> candidates_;
  assay::BenchOptions options_;
  BenchReport report_;
};

}  // namespace

Result<int> Run(const BenchCommand& command) { return Bench(command).Run(); }

}  // namespace cupel::cli
