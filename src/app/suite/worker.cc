// SPDX-License-Identifier: Apache-2.0
#include "app/suite/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/ceilings.h"
#include "app/check/without_fast_math.h"
#include "app/measure/bench.h"
#include "app/session.h"
#include "assay/bench.h"
#include "assay/provenance.h"
#include "base/version.h"
#include "judge/record.h"
#include "judge/verdict.h"
#include "oracle/python.h"
#include "os/folders.h"
#include "records/json.h"
#include "serve/identity.h"
#include "serve/remote_oracle.h"
#include "serve/worker.h"

namespace cupel::app {
namespace {

class SessionJudge final : public serve::Judge, private Events {
 public:
  static Result<std::unique_ptr<serve::Judge>> Open(const WorkerOptions& options,
                                                    const serve::Setup& setup, serve::WireEnd& wire,
                                                    Events& remarks);

  serve::Ready Describe() const override { return ready_; }
  Result<serve::Done> Do(const serve::Assignment& work, const serve::Unpacked& files) override;

 private:
  SessionJudge(serve::WireEnd& wire, Events& remarks) : wire_(wire), remarks_(remarks) {}
  void Show(const Progress& progress) override {
    wire_.Show({ticket_, progress.stage, progress.done, progress.total.value_or(0)});
  }
  void ReportWarnings();
  judge::Basis BasisOf(const assay::Question& question, const assay::Candidate& candidate) const;
  /// Times an accepted kernel at one setting. Returns cupel.bench/1.
  Result<Json> Time(const assay::Question& question, const serve::Assignment& work,
                    const assay::Candidate& candidate);
  /// PyTorch's baselines, started on first use; null if PyTorch cannot use the GPU.
  oracle::Baselines* Baselines();

  serve::WireEnd& wire_;
  Events& remarks_;
  int64_t ticket_ = 0;
  serve::Ready ready_;
  Common common_;
  Compile compile_;
  std::unique_ptr<Session> session_;
  serve::RemoteOracle* remote_ = nullptr;  // null if this worker makes the cases
  assay::BenchOptions bench_;
  std::unique_ptr<oracle::Baselines> baselines_;
  bool tried_baselines_ = false;
  size_t reported_warnings_ = 0;
};

Result<std::unique_ptr<serve::Judge>> SessionJudge::Open(const WorkerOptions& options,
                                                         const serve::Setup& setup,
                                                         serve::WireEnd& wire, Events& remarks) {
  std::unique_ptr<SessionJudge> judge(new SessionJudge(wire, remarks));
  Common& common = judge->common_;
  common.device = setup.device;
  common.model = setup.model;
  common.engines = setup.engines;
  common.threads = setup.threads;
  common.python = options.common.python.empty() ? setup.python : options.common.python;
  common.stop = wire.stop();
  Compile& compile = judge->compile_;
  compile.arch = setup.arch;
  compile.flags = setup.flags;
  compile.seconds = setup.compile_seconds;
  compile.include_roots = setup.include_roots;
  compile.allow_weak_sandbox = setup.allow_weak_sandbox || options.compile.allow_weak_sandbox;

  TRY_ASSIGN(const auto cache, os::CacheDir());
  const std::string cases = options.cases == "auto" ? setup.cases : options.cases;
  const auto python =
      oracle::FindPython(common.python, cache / "cases" / "pythons.json", common.stop);
  if (!python && cases == "worker") return tl::unexpected<Error>(python.error());
  if (python) judge->ready_.torch = python->torch_version;
  judge->ready_.cases = python && cases != "coordinator" ? "worker" : "coordinator";

  std::unique_ptr<oracle::Oracle> oracle;
  if (judge->ready_.cases == "coordinator") {
    auto remote =
        std::make_unique<serve::RemoteOracle>(wire, serve::CaseStore(cache / "store", common.stop));
    judge->remote_ = remote.get();
    oracle = std::move(remote);
  }
  SessionJudge& self = *judge;
  TRY_ASSIGN(judge->session_, Session::Create(common, compile, self, true, std::move(oracle)));
  const engine::Engine& engine = judge->session_->engine();
  judge->ready_.device = fmt::format("{} ({})", engine.Name(), engine.Device().full_name);
  judge->ready_.timed = engine.Name() == "gpu";
  judge->ready_.gpu = engine.Device().uuid;
  if (judge->ready_.timed) {
    TRY_ASSIGN(judge->bench_.ceilings, CeilingsOf(judge->session_->engine()));
  }
  return std::unique_ptr<serve::Judge>(std::move(judge));
}

Result<serve::Done> SessionJudge::Do(const serve::Assignment& work, const serve::Unpacked& files) {
  ticket_ = work.ticket;
  if (remote_ != nullptr) remote_->Serve(work.ticket);
  const serve::Item& item = work.item;
  Target target;
  target.task = files.task.string();
  target.backward = item.backward;
  target.settings = item.settings;
  target.trials = item.trials;
  target.full_size = item.full_size;
  TRY_ASSIGN(task::Task task, LoadTarget(target, common_));
  if (task.content_hash[static_cast<int>(DirectionOf(target))] != work.task_hash) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the task {} changed on its way to the worker", task.name));
  }
  // Records and messages use the coordinator's paths.
  task.path = work.task_path;
  Show(Progress{"building"});
  Compile compile = compile_;
  compile.flags.insert(compile.flags.begin(), item.flags.begin(), item.flags.end());
  build::Options options = session_->parts().build;
  options.flags = compile.flags;
  TRY_ASSIGN(assay::Candidate candidate, assay::BuildCandidate(files.kernel, options));
  candidate.path = item.kernel;

  Common common = common_;
  common.seed = item.seed;
  assay::Question question = QuestionOf(task, target, common);
  if (item.thorough) {
    MakeThorough(question);
    question.explores = question.explores && item.explores;
  }
  question = ForEngines(std::move(question), target, common);
  serve::Done done;
  if (work.setting.empty()) {
    auto judged = session_->assay().Judge(candidate, question);
    ReportWarnings();
    if (!judged) return tl::unexpected<Error>(judged.error());
    TRY(TryWithoutFastMath(files.kernel, common, compile, question, *session_, *this,
                           judged->verdict));
    done.verdict = records::ToJson(judged->verdict);
    return done;
  }
  done.is_stale = std::holds_alternative<build::BuildFailure>(candidate.built) ||
                  !judge::IsStillValid(item.judged.verdict, BasisOf(question, candidate));
  if (!done.is_stale) {
    TRY_ASSIGN(done.bench, Time(question, work, candidate));
  }
  return done;
}

judge::Basis SessionJudge::BasisOf(const assay::Question& question,
                                   const assay::Candidate& candidate) const {
  records::Provenance now =
      assay::ProvenanceOf(candidate, question, session_->parts(), std::nullopt);
  judge::Basis basis;
  basis.image_key = assay::ImageKeyOf(candidate);
  basis.ptx_hash = std::move(now.ptx_hash);
  basis.program_hash = std::move(now.program_hash);
  basis.shim_hash = std::move(now.shim_hash);
  basis.oracle_hash = std::move(now.oracle_hash);
  const bool emulator_alone = EmulatesBesideGpu(common_) && common_.engines == "emu";
  basis.device =
      assay::DeviceOf(emulator_alone ? *session_->parts().emulator->engine : session_->engine());
  if (ready_.cases == "worker") basis.torch_version = ready_.torch;
  return basis;
}

void SessionJudge::ReportWarnings() {
  const auto& warnings = session_->oracle().warnings();
  for (; reported_warnings_ < warnings.size(); ++reported_warnings_) {
    remarks_.Note(warnings[reported_warnings_]);
  }
}

oracle::Baselines* SessionJudge::Baselines() {
  if (!std::exchange(tried_baselines_, true)) {
    auto started = session_->StartBaselines();
    if (started) {
      baselines_ = std::move(*started);
    } else {
      remarks_.Note("cannot time PyTorch for comparison: " + started.error().ToString());
    }
  }
  return baselines_.get();
}

Result<Json> SessionJudge::Time(const assay::Question& question, const serve::Assignment& work,
                                const assay::Candidate& candidate) {
  if (!ready_.timed) {
    return Fail(ErrorCode::kUnsupported, fmt::format("{} cannot measure time", ready_.device),
                "use a GPU to time kernels");
  }
  const auto chosen = assay::Chosen(question);
  const auto setting = std::ranges::find(
      chosen, work.setting, [](const task::Setting* one) -> const std::string& { return one->id; });
  if (setting == chosen.end()) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the task {} has no setting {}", question.task->name, work.setting));
  }
  const serve::Item& item = work.item;
  records::Bench report;
  report.task = question.task->name;
  report.direction = question.direction;
  report.cupel = kVersion;
  report.gpu = bench_.ceilings.gpu;
  report.ceilings = bench_.ceilings;
  assay::BenchOptions options = bench_;
  options.measure.most = item.rounds;
  options.measure.least = std::min(options.measure.least, item.rounds);
  options.energy_seconds = item.energy ? assay::kEnergySeconds : 0;
  options.torch = item.baselines ? Baselines() : nullptr;
  if (options.torch != nullptr) {
    options.baselines = oracle::UsualBaselines(*question.task);
    report.torch = options.torch->torch_version();
  }
  const assay::KernelToTime kernel{item.kernel.filename().string(), &candidate};
  TRY_ASSIGN(records::SettingTimes times, assay::TimeSetting(session_->parts(), question, **setting,
                                                             std::span(&kernel, 1), options));
  report.settings.push_back(std::move(times));
  return records::ToJson(report);
}

}  // namespace

Status Work(const WorkerOptions& options, int output, Events& remarks) {
  serve::WireOptions streams;
  streams.out = output;
  streams.stop = options.common.stop;
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const serve::Hello hello, serve::WhoAmI(data));
  return serve::RunWorker(hello, streams, [&](const serve::Setup& setup, serve::WireEnd& wire) {
    return SessionJudge::Open(options, setup, wire, remarks);
  });
}

}  // namespace cupel::app
