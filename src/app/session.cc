// SPDX-License-Identifier: Apache-2.0
#include "app/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "app/signature.h"
#include "base/parse_number.h"
#include "device/device.h"
#include "emu/exec/emulator.h"
#include "gpu/engine.h"
#include "gpu/gpu_lock.h"
#include "oracle/installed.h"
#include "oracle/operators.h"
#include "oracle/python.h"
#include "os/folders.h"
#include "task/reduced.h"
#include "trace/python_pool.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

Result<fs::path> LocksFolder() {
  TRY_ASSIGN(const auto cache, os::CacheDir());
  return cache / "gpu";
}

Result<std::shared_ptr<plan::OperatorRunner>> MakeOperators(const Common& common) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  oracle::OperatorOptions options;
  options.script = data / "src" / "oracle" / "py" / "operators.py";
  options.python = common.python;
  options.cache = cache / "cases";
  options.threads = common.threads;
  options.stop = common.stop;
  return oracle::MakeOperatorRunner(std::move(options));
}

/// EngineOptions::torch_worker. The library is next to the program.
Result<std::vector<std::string>> TorchWorker(const std::string& wanted,
                                             const std::stop_token& stop) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  TRY_ASSIGN(const oracle::Python python,
             oracle::FindPython(wanted, cache / "cases" / "pythons.json", stop));
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path library = program.parent_path() / "libcupel_gpu_worker.so";
  if (!fs::exists(library, error)) {
    return Fail(
        ErrorCode::kEnvironment,
        fmt::format("there is no {}, which PyTorch's operators on a GPU need", library.string()),
        "install cupel with it, or use --device emu");
  }
  const fs::path script = data / "src" / "oracle" / "py" / "gpu_worker.py";
  return std::vector<std::string>{python.program, script.string(), library.string()};
}

Result<std::unique_ptr<engine::Engine>> MakeEngine(const Common& common, bool will_time,
                                                   std::shared_ptr<plan::OperatorRunner> operators,
                                                   Events& events) {
  if (OnEmulator(common)) {
    TRY_ASSIGN(const device::Description device, device::Find(common.model));
    return emu::MakeEmulator(device, {common.threads, std::move(operators)});
  }
  gpu::EngineOptions options;
  TRY_ASSIGN(options.ordinal, GpuOrdinal(common.device));
  TRY_ASSIGN(options.locks, LocksFolder());
  options.will_time = will_time;
  options.stop = common.stop;
  options.waiting = [&events](bool waits) {
    events.Show({waits ? "waiting for the GPU, which another cupel process uses"
                       : "using the GPU, after a wait"});
  };
  options.torch_worker = [python = common.python, stop = common.stop] {
    return TorchWorker(python, stop);
  };
  return gpu::MakeGpuEngine(options);
}

/// PyTorch's threads. When the emulator judges, `threads` is for the emulator.
int TorchThreads(const Common& common) {
  return OnEmulator(common) ? common.torch_threads : common.threads;
}

/// What the emulator beside a GPU reports.
class EmulatorEvents final : public Events {
 public:
  explicit EmulatorEvents(Events& events) : events_(events) {}

  void Show(const Progress& progress) override {
    Progress ours = progress;
    ours.stage = "emulator: " + ours.stage;
    events_.Show(ours);
  }
  void Note(std::string_view note) override { events_.Note(note); }

 private:
  Events& events_;
};

/// The oracle may also compute the truth on the GPU that judges the kernels.
Result<std::optional<oracle::TruthGpu>> TruthGpuOf(const Common& common,
                                                   const engine::Engine& engine) {
  const std::string& uuid = engine.Device().uuid;
  if (uuid.empty()) return std::optional<oracle::TruthGpu>();
  TRY_ASSIGN(const int ordinal, GpuOrdinal(common.device));
  TRY_ASSIGN(const fs::path locks, LocksFolder());
  return std::optional(oracle::TruthGpu{ordinal, gpu::LockFile(locks, uuid)});
}

}  // namespace

Result<std::shared_ptr<trace::PythonPool>> MakePythons(const Common& common,
                                                       const Compile& compile) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  trace::PoolOptions options;
  options.zygote = data / "src" / "trace" / "py" / "zygote.py";
  options.tracer = options.zygote.parent_path();
  options.python = common.python;
  options.cache = cache / "cases";
  options.allow_weak_sandbox = compile.allow_weak_sandbox;
  return std::make_shared<trace::PythonPool>(std::move(options));
}

Result<int> GpuOrdinal(std::string_view device) {
  if (device == "gpu") return 0;
  if (device.starts_with("gpu:")) {
    if (const auto ordinal = ParseNumber<int>(device.substr(4))) return *ordinal;
  }
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("--device {} is neither emu nor gpu[:N]{}", device,
                  device == "gpu:all" ? " (only bench, stream and suite run use all GPUs)" : ""),
      "use --device emu, or gpu:0");
}

Result<build::Options> CompilerOptions(const Common& common, const Compile& compile,
                                       Events& events) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  build::Options options;
  options.shim = data / "shim";
  options.cache = cache / "build";
  options.arch = compile.arch;
  if (const auto model = device::Find(common.model)) options.device_major = model->major;
  options.flags = compile.flags;
  options.allow_weak_sandbox = compile.allow_weak_sandbox;
  options.stop = common.stop;
  TRY_ASSIGN(const auto operators, MakeOperators(common));
  options.operator_schemas = [operators] { return operators->Schemas(); };
  options.deadline = std::chrono::seconds(compile.seconds);
  options.progress = [&events](const std::string& stage) { events.Show(Progress{stage}); };
  // The compiler runs in its own folder, so paths must be absolute.
  for (const auto& root : compile.include_roots) {
    options.include_roots.push_back(std::filesystem::absolute(root).lexically_normal());
  }
  return options;
}

Result<oracle::ImportOptions> ImporterOptions(const Common& common, int seconds, uint64_t memory) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  oracle::ImportOptions options;
  options.script = data / "src" / "oracle" / "py" / "import_task.py";
  options.python = common.python;
  options.cache = cache / "cases";
  options.deadline = std::chrono::seconds(seconds);
  options.memory = memory;
  options.stop = common.stop;
  return options;
}

Result<std::unique_ptr<Session>> Session::Create(const Common& common, const Compile& compile,
                                                 Events& events, bool will_time,
                                                 std::unique_ptr<oracle::Oracle> oracle) {
  TRY_ASSIGN(const auto data, os::DataDir());

  std::unique_ptr<Session> session(new Session());
  session->common_ = common;
  TRY_ASSIGN(const auto operators, MakeOperators(common));
  TRY_ASSIGN(session->engine_, MakeEngine(common, will_time, operators, events));
  const bool has_oracle = oracle != nullptr;
  session->oracle_ = std::move(oracle);
  if (!has_oracle) {
    TRY_ASSIGN(std::optional<oracle::TruthGpu> gpu, TruthGpuOf(common, *session->engine_));
    TRY_ASSIGN(session->oracle_,
               oracle::OpenInstalled(
                   common.python, common.stop,
                   [&events](const std::string& stage) { events.Show(Progress{stage}); },
                   std::move(gpu), TorchThreads(common)));
  }

  assay::Parts& parts = session->parts_;
  parts.oracle = session->oracle_.get();
  parts.engine = session->engine_.get();
  parts.oracle_scripts = data / "src" / "oracle" / "py";
  TRY_ASSIGN(parts.build, CompilerOptions(common, compile, events));
  parts.build.device_major = parts.engine->Device().major;
  parts.record.program = "/proc/self/exe";
  // Recording a call takes about 60 ms. Host code that never returns must be detected within
  // seconds.
  parts.record.deadline = std::chrono::seconds(5);
  parts.record.allow_weak_sandbox = compile.allow_weak_sandbox;
  parts.record.stop = parts.stop = common.stop;
  parts.record.operators = operators;
  TRY_ASSIGN(parts.pythons, MakePythons(common, compile));
  parts.signature = [signatures = std::make_shared<Signatures>(common)](
                        const task::Task& task, task::Direction direction,
                        const task::Setting& setting) {
    return signatures->Of(task, direction, setting);
  };
  parts.events = &events;
  if (EmulatesBesideGpu(common)) TRY(session->AddEmulator(compile, !has_oracle));
  session->assay_ = std::make_unique<assay::Assay>(parts);
  if (parts.emulator != nullptr) {
    session->beside_gpu_ = std::make_unique<assay::Assay>(*parts.emulator);
    session->emulator_assay_ = session->beside_gpu_.get();
  } else if (OnEmulator(common)) {
    session->emulator_assay_ = session->assay_.get();
  }
  return session;
}

/// `has_own_oracle`: it gets a PyTorch of its own, so that both engines can work at the same time.
Status Session::AddEmulator(const Compile& compile, bool has_own_oracle) {
  Common common = common_;
  common.device = "emu";
  common.model = common_.emulator_model.empty() ? engine_->Device().name : common_.emulator_model;
  common.torch_threads = common_.threads;
  emulator_events_ = std::make_unique<EmulatorEvents>(*parts_.events);
  if (has_own_oracle) {
    TRY_ASSIGN(emulator_, Create(common, compile, *emulator_events_));
    parts_.emulator = std::make_shared<assay::Parts>(emulator_->parts());
    return {};
  }
  assay::Parts parts = parts_;
  TRY_ASSIGN(const auto operators, MakeOperators(common));
  TRY_ASSIGN(emulator_engine_, MakeEngine(common, false, operators, *emulator_events_));
  parts.engine = emulator_engine_.get();
  parts.events = emulator_events_.get();
  parts_.emulator = std::make_shared<assay::Parts>(std::move(parts));
  return {};
}

Result<std::unique_ptr<oracle::Baselines>> Session::StartBaselines() {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  TRY_ASSIGN(const engine::ClockKernels kernels, engine_->Kernels());
  oracle::BaselineOptions options;
  options.script = data / "src" / "oracle" / "py" / "baseline.py";
  options.python = common_.python;
  options.cache = cache / "cases";
  TRY_ASSIGN(options.ordinal, GpuOrdinal(common_.device));
  TRY_ASSIGN(const auto gpu, TruthGpuOf(common_, *engine_));
  if (gpu) options.lock = gpu->lock;
  options.threads = TorchThreads(common_);
  options.stop = common_.stop;
  options.kernels = {.flush_ptx = kernels.flush_ptx,
                     .flush_entry = kernels.flush_entry,
                     .probe_ptx = kernels.probe_ptx,
                     .probe_entry = kernels.probe_entry,
                     .flush_bytes = kernels.flush_bytes,
                     .flush_grid = kernels.flush_grid,
                     .flush_block = kernels.flush_block,
                     .probe_grid = kernels.probe_grid,
                     .probe_block = kernels.probe_block,
                     .probe_iterations = kernels.probe_iterations};
  options.progress = [this](const std::string& stage) { parts_.Show({stage}); };
  return oracle::Baselines::Start(std::move(options));
}

Result<std::optional<int>> GpuOf(const Common& common) {
  if (OnEmulator(common)) return std::optional<int>();
  TRY_ASSIGN(const int ordinal, GpuOrdinal(common.device));
  return std::optional<int>(ordinal);
}

task::Direction DirectionOf(const Target& target) {
  return target.backward ? task::Direction::kBackward : task::Direction::kForward;
}

bool OnEmulator(const Common& common) { return common.device == "emu" || common.device == "auto"; }

Result<task::Task> LoadTarget(const Target& target, const Common& common) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(task::Task task, task::LoadTask(target.task, data / "tasks"));
  const task::Direction direction = DirectionOf(target);
  if (!task.Has(direction)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("task {} has no {} direction", task.name, task::Name(direction)),
                fmt::format("this needs func_{0}.py and config_{0}.json in {1}",
                            task::Name(direction), task.path.string()));
  }
  const bool reduced = OnEmulator(common) && !target.full_size;
  return reduced ? task::Reduced(std::move(task)) : std::move(task);
}

std::vector<task::SettingKind> KindsOf(const Target& target) {
  if (target.settings == "single") return {task::SettingKind::kSingle};
  if (target.settings == "multi") return {task::SettingKind::kMulti};
  if (target.settings == "heldout") return {task::SettingKind::kHeldout};
  return {};
}

task::AllowedOperators OperatorsOf(const Target& target) {
  return task::ParseAllowedOperators(target.operators).value_or(task::AllowedOperators());
}

assay::Question QuestionOf(const task::Task& task, const Target& target, const Common& common) {
  assay::Question question;
  question.task = &task;
  question.direction = DirectionOf(target);
  question.kinds = KindsOf(target);
  question.trials = target.trials;
  question.operators = target.operators == "auto" ? task.operators : OperatorsOf(target);
  question.seed = common.seed;
  return question;
}

void MakeThorough(assay::Question& question) {
  const auto others = task::OtherInputs();
  question.shadows = question.integers = true;
  question.distributions.assign(others.begin(), others.end());
  question.explores = question.kinds.empty();
}

bool EmulatesBesideGpu(const Common& common) {
  return !OnEmulator(common) && common.engines != "gpu";
}

assay::Question ForEngines(assay::Question question, const Target& target, const Common& common) {
  if (!EmulatesBesideGpu(common)) return question;
  auto other = std::make_shared<assay::EmulatorQuestion>();
  other->task = target.full_size ? *question.task : task::Reduced(*question.task);
  other->question = question;
  other->question.task = &other->task;
  other->alone = common.engines == "emu";
  question.shadows = question.explores = question.proves = false;
  question.few_inputs = true;
  question.emulator = std::move(other);
  return question;
}

Result<std::vector<task::Distribution>> DistributionsOf(const std::string& text) {
  const auto others = task::OtherInputs();
  if (text == "all") return std::vector<task::Distribution>(others.begin(), others.end());
  std::vector<task::Distribution> chosen;
  if (text == "none") return chosen;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, end - at);
    const auto known = task::DistributionNamed(name);
    if (!known || std::find(others.begin(), others.end(), *known) == others.end()) {
      std::string names;
      for (const task::Distribution other : others) names += fmt::format(", {}", Name(other));
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--distributions: unknown name \"{}\"", name.substr(0, 40)),
                  "use all, none or names from" + names.substr(1));
    }
    chosen.push_back(*known);
    at = end + 1;
  }
  return chosen;
}

}  // namespace cupel::app
