// SPDX-License-Identifier: Apache-2.0
#include "oracle/baseline.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "oracle/baseline_reply.h"
#include "oracle/environment.h"
#include "oracle/load.h"
#include "oracle/python.h"
#include "oracle/reply.h"
#include "oracle/torch_child.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;
using Outcome = std::variant<BaselineInfo, SettingFailure>;

constexpr size_t kMaxSeeds = 64;
constexpr int kMaxCount = 1 << 18;

Status CheckKernels(const ClockKernels& k) {
  const bool sane = !k.flush_ptx.empty() && !k.probe_ptx.empty() && k.flush_bytes > 0 &&
                    k.flush_grid > 0 && k.flush_block > 0 && k.probe_grid > 0 && k.probe_block > 0;
  if (sane) return {};
  return Fail(ErrorCode::kInvalidArgument, "the clock's kernels are incomplete");
}

tl::unexpected<Error> NotPrepared(const std::string& name) {
  return Fail(ErrorCode::kNotFound, fmt::format("the baseline {} is not prepared", name),
              "prepare it again: it was dropped, or PyTorch ended");
}

/// The code of a failure that PyTorch's process reported.
ErrorCode CodeOf(const std::string& why) {
  return why.starts_with("unsupported: ") ? ErrorCode::kUnsupported : ErrorCode::kEnvironment;
}

}  // namespace

const char* Name(BaselineKind kind) {
  switch (kind) {
    case BaselineKind::kEager:
      return "eager";
    case BaselineKind::kCompile:
      return "compile";
    case BaselineKind::kMaxAutotune:
      return "max-autotune";
    case BaselineKind::kNamed:
      return "named";
    case BaselineKind::kProbe:
      return "probe";
  }
  return "?";
}

std::string Baseline::Name() const {
  return kind == BaselineKind::kNamed ? named.name : oracle::Name(kind);
}

std::vector<Baseline> UsualBaselines(const task::Task& task) {
  std::vector<Baseline> usual = {{BaselineKind::kEager}, {BaselineKind::kCompile}};
  for (const task::NamedBaseline& named : task.named_baselines)
    usual.push_back({BaselineKind::kNamed, named});
  return usual;
}

const char* Name(Baselines::Mode mode) {
  switch (mode) {
    case Baselines::Mode::kCold:
      return "cold";
    case Baselines::Mode::kWarm:
      return "warm";
    case Baselines::Mode::kHost:
      return "host";
  }
  return "?";
}

struct Baselines::Impl {
  BaselineOptions options;
  Python python;
  std::unique_ptr<TorchChild> child;
  std::set<std::string> loaded;     // tasks, in this child
  std::map<std::string, int> sets;  // by name, in this child
  std::string torch_version, gpu;
  int64_t last_id = 0;
  int64_t prepared = 0;

  Status StartChild();
  Status Open();
  Status EnsureChild();
  void Forget() {
    child.reset();
    loaded.clear();
    sets.clear();
  }
  /// Returns the reply, which may contain a "failure". Drops a child that died or whose GPU is
  /// unusable.
  Result<Json> Ask(Json request);
};

Result<Json> Baselines::Impl::Ask(Json request) {
  request["id"] = ++last_id;
  TRY(child->Send(request));
  auto received = child->Receive(last_id);
  if (!received && !child->alive()) Forget();
  TRY_ASSIGN(std::optional<Json> reply, std::move(received));
  if (!reply) {
    const std::string how = child->ExitReason();
    Forget();
    return Fail(ErrorCode::kEnvironment,
                fmt::format("PyTorch ended while cupel timed it ({}): {}",
                            DumpJson(request["op"]).substr(0, 40), how),
                "check that the task's reference runs on the GPU by itself");
  }
  const auto broken = JsonBool(*reply, "broken", "baseline.py");
  if (broken && *broken) Forget();
  return std::move(*reply);
}

Status Baselines::Impl::StartChild() {
  if (options.progress) options.progress(fmt::format("starting PyTorch ({})", python.program));
  ChildOptions spawn{python.program,   options.script,  StepDeadline(options.step_deadline),
                     options.progress, options.threads, options.stop};
  TRY_ASSIGN(child, TorchChild::Start(std::move(spawn)));
  auto opened = Open();
  if (!opened) Forget();
  return opened;
}

Status Baselines::Impl::Open() {
  const ClockKernels& k = options.kernels;
  TRY_ASSIGN(const Json reply, Ask({{"op", "open"},
                                    {"device", options.ordinal},
                                    {"lock", options.lock.string()},
                                    {"flush_bytes", k.flush_bytes},
                                    {"flush_ptx", k.flush_ptx},
                                    {"flush_entry", k.flush_entry},
                                    {"flush_grid", k.flush_grid},
                                    {"flush_block", k.flush_block},
                                    {"probe_ptx", k.probe_ptx},
                                    {"probe_entry", k.probe_entry},
                                    {"probe_grid", k.probe_grid},
                                    {"probe_block", k.probe_block},
                                    {"probe_iterations", k.probe_iterations}}));
  if (reply.contains("failure")) {
    TRY_ASSIGN(const std::string why, ReplyText(reply, "failure", kBaseline));
    return Fail(CodeOf(why), fmt::format("cannot time PyTorch on GPU {} with {}: {}",
                                         options.ordinal, python.program, why));
  }
  TRY_ASSIGN(torch_version, ReplyText(reply, "torch", kBaseline));
  TRY_ASSIGN(gpu, ReplyText(reply, "gpu", kBaseline));
  return {};
}

Status Baselines::Impl::EnsureChild() {
  if (child && !child->alive()) Forget();
  if (!child) TRY(StartChild());
  return {};
}

Baselines::Baselines(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Baselines::~Baselines() = default;
const std::string& Baselines::torch_version() const { return impl_->torch_version; }
const std::string& Baselines::gpu() const { return impl_->gpu; }

Result<std::unique_ptr<Baselines>> Baselines::Start(BaselineOptions options) {
  TRY(CheckKernels(options.kernels));
  const fs::path memory = options.cache.empty() ? fs::path() : options.cache / "pythons.json";
  auto impl = std::make_unique<Impl>();
  TRY_ASSIGN(impl->python, FindPython(options.python, memory, options.stop));
  impl->options = std::move(options);
  TRY(impl->StartChild());
  return std::unique_ptr<Baselines>(new Baselines(std::move(impl)));
}

Result<Outcome> Baselines::Prepare(const task::Task& task, task::Direction direction,
                                   const task::Setting& setting, const Baseline& baseline,
                                   std::span<const uint64_t> seeds) {
  const bool probe = baseline.kind == BaselineKind::kProbe;
  if (!probe && (seeds.empty() || seeds.size() > kMaxSeeds)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("baselines take 1 to {} seeds, not {}", kMaxSeeds, seeds.size()));
  }
  if (!probe) TRY(RequireDirection(task, direction));
  TRY(impl_->EnsureChild());
  Json request = {{"op", "prepare"}, {"kind", Name(baseline.kind)}};
  if (baseline.kind == BaselineKind::kNamed) {
    request["file"] = baseline.named.file.string();
    request["function"] = baseline.named.function;
  }
  if (!probe) {
    const std::string id = ChildTaskId(task, direction);
    if (impl_->loaded.count(id) == 0) {
      TRY(LoadInChild(*impl_->child, ++impl_->last_id, task, direction));
      impl_->loaded.insert(id);
    }
    request["task"] = id;
    request["init"] = setting.init;
    request["inputs"] = setting.inputs;
    request["direction"] = Name(direction);
    request["seeds"] = std::vector<uint64_t>(seeds.begin(), seeds.end());
  }
  const std::string name = fmt::format("{} {}", baseline.Name(), ++impl_->prepared);
  request["name"] = name;
  TRY_ASSIGN(const Json reply, impl_->Ask(std::move(request)));
  if (reply.contains("failure")) {
    TRY_ASSIGN(std::string why, ReplyText(reply, "failure", kBaseline));
    return Outcome(SettingFailure{std::move(why)});
  }
  TRY_ASSIGN(BaselineInfo info, ReadBaselineInfo(reply, probe ? 1 : seeds.size()));
  info.name = name;
  info.baseline = baseline;
  impl_->sets[name] = info.sets;
  return Outcome(std::move(info));
}

Result<std::vector<double>> Baselines::Take(const std::string& name, Mode mode, int set,
                                            int count) {
  const auto found = impl_->sets.find(name);
  if (found == impl_->sets.end()) return NotPrepared(name);
  if (set < 0 || set >= found->second || count < 1 || count > kMaxCount) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot take {} samples on set {} of {}", count, set, found->second));
  }
  TRY_ASSIGN(
      const Json reply,
      impl_->Ask(
          {{"op", "take"}, {"name", name}, {"mode", Name(mode)}, {"set", set}, {"count", count}}));
  if (reply.contains("failure")) {
    TRY_ASSIGN(const std::string why, ReplyText(reply, "failure", kBaseline));
    return Fail(ErrorCode::kEnvironment, fmt::format("cannot time PyTorch: {}", why));
  }
  return ReadBaselineSamples(reply, count);
}

Result<BaselineEnergy> Baselines::MeasureEnergy(const std::string& name, double seconds) {
  if (!impl_->sets.contains(name)) return NotPrepared(name);
  TRY_ASSIGN(const Json reply,
             impl_->Ask({{"op", "energy"}, {"name", name}, {"seconds", seconds}}));
  if (reply.contains("failure")) {
    TRY_ASSIGN(const std::string why, ReplyText(reply, "failure", kBaseline));
    return Fail(CodeOf(why), why);
  }
  return ReadBaselineEnergy(reply);
}

Status Baselines::Drop(const std::string& name) {
  if (impl_->sets.erase(name) == 0) return {};  // it belonged to an earlier child
  TRY_ASSIGN(const Json reply, impl_->Ask({{"op", "drop"}, {"name", name}}));
  if (!reply.contains("failure")) return {};
  TRY_ASSIGN(const std::string why, ReplyText(reply, "failure", kBaseline));
  return Fail(ErrorCode::kEnvironment, fmt::format("cannot drop a baseline: {}", why));
}

}  // namespace cupel::oracle
