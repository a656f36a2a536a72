// Tested by engine_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpu/faults.h"
#include "gpu/patience.h"
#include "gpu/protocol.h"
#include "gpu/surroundings.h"
#include "gpu/timing_protocol.h"
#include "plan/codec.h"
#include "plan/operators.h"
#include "ptx/parser.h"
#include "records/json.h"

namespace cupel::gpu {
namespace {

using records::Finding;

constexpr const char* kAnswer = "the GPU worker's answer";

/// The finding for a worker that ended. It runs only our own host code, so the kernel was the
/// cause.
Finding WorkerFault(const Error& error) {
  Finding finding;
  finding.code = "gpu_fault";
  finding.message = fmt::format(
      "The plan ended the GPU worker process ({}). A new one replaced it.", error.message);
  return finding;
}

/// No retries if this process uses the GPU alone: other processes would then wait for its lock
/// instead of freeing memory.
Patience PatienceWith(const GpuLock& lock) {
  return lock.use() == GpuLock::Use::kAlone ? Patience{} : kForMemory;
}

bool IsLost(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), &EndsContext);
}

class RemoteTimer : public engine::Timer {
 public:
  RemoteTimer(std::shared_ptr<WorkerProcess> worker, std::shared_ptr<GpuLock> lock)
      : worker_(std::move(worker)), lock_(std::move(lock)) {}
  ~RemoteTimer() override { lock_->Release(); }

  Status Make(std::span<const engine::Entrant> entrants,
              std::span<const std::vector<std::span<const std::byte>>> sets) {
    TRY(lock_->Acquire(GpuLock::Use::kAlone));
    for (const engine::Entrant& entrant : entrants) {
      if (std::any_of(entrant.plans.begin(), entrant.plans.end(),
                      [](const plan::Plan* plan) { return plan::HasOperators(*plan); })) {
        TRY(worker_->NeedTorch());
      }
    }
    TRY(worker_->Ensure());
    Json request{{"timer", Json::array()}, {"sets", Json::array()}};
    for (const engine::Entrant& entrant : entrants) {
      auto* program = dynamic_cast<RemoteProgram*>(entrant.program);
      if (program == nullptr) {
        return Fail(ErrorCode::kInvalidArgument, "cannot time a program of another engine");
      }
      TRY(program->LoadForTiming());
      if (entrant.plans.empty()) return Fail(ErrorCode::kInternal, "an entrant has no plan");
      Json plans = Json::array();
      for (const plan::Plan* plan : entrant.plans) plans.push_back(plan::ToJson(*plan));
      request["timer"].push_back({program->id(), std::move(plans)});
    }
    uint64_t end = 0;
    for (const auto& set : sets) {
      TRY_ASSIGN(Json places, worker_->Write(set, &end));
      request["sets"].push_back(std::move(places));
    }
    request["results"] = end;
    bool worker_ended = false;
    TRY_ASSIGN(const Json answer, worker_->Ask(request, &worker_ended));
    TRY_ASSIGN(const int64_t count, JsonInt(answer, "sets", kAnswer));
    if (count < 1 || count > static_cast<int64_t>(sets.size())) {
      return Fail(ErrorCode::kInternal, "the GPU worker sent an invalid number of sets");
    }
    sets_ = static_cast<int>(count);
    generation_ = worker_->generation();
    return {};
  }

  int Sets() const override { return sets_; }

  Result<engine::Taken> Take(const engine::TakeRequest& request) override {
    engine::Taken taken;
    TRY_ASSIGN(const auto answer, Ask(ToJson(request), &taken.findings));
    if (!answer) return taken;
    TRY_ASSIGN(const Json* times, JsonArray(*answer, "us", kAnswer));
    TRY_ASSIGN(taken.us, TimesFromJson(*times, static_cast<size_t>(request.count)));
    TRY_ASSIGN(engine::Run run, ReadRun(*answer));
    taken.outputs = std::move(run.outputs);
    taken.findings = std::move(run.findings);
    taken.unsupported = std::move(run.unsupported);
    return taken;
  }

  Result<double> MeasureOverhead() override {
    std::vector<Finding> findings;
    TRY_ASSIGN(const auto answer, Ask({{"nothing", 1}}, &findings));
    if (!answer) return Fail(ErrorCode::kEnvironment, findings.front().message);
    TRY_ASSIGN(const Json* times, JsonArray(*answer, "us", kAnswer));
    TRY_ASSIGN(const std::vector<double> us, TimesFromJson(*times, 1));
    if (us.empty()) return Fail(ErrorCode::kInternal, "the GPU worker sent no time");
    return us.front();
  }

  Result<records::EnergyUse> MeasureEnergy(size_t entrant, double seconds) override {
    std::vector<Finding> findings;
    TRY_ASSIGN(const auto answer, Ask({{"energy", entrant}, {"seconds", seconds}}, &findings));
    if (!answer) return Fail(ErrorCode::kEnvironment, findings.front().message);
    return records::ReadEnergyUse(*answer, "energy");
  }

  Result<std::vector<Finding>> Finish() override {
    std::vector<Finding> findings;
    TRY_ASSIGN(const auto answer, Ask({{"finish", 1}}, &findings));
    if (!answer) return findings;
    TRY_ASSIGN(engine::Run run, ReadRun(*answer));
    return std::move(run.findings);
  }

 private:
  /// Adds a finding and returns nullopt if the worker ended.
  Result<std::optional<Json>> Ask(const Json& request, std::vector<Finding>* findings) {
    if (!worker_->running() || worker_->generation() != generation_) {
      return Fail(ErrorCode::kInternal, "the timer ended with an earlier fault");
    }
    bool worker_ended = false;
    auto answer = worker_->Ask(request, &worker_ended);
    if (!answer && worker_ended) {
      findings->push_back(WorkerFault(answer.error()));
      return std::optional<Json>();
    }
    TRY(answer);
    return std::optional<Json>(std::move(*answer));
  }

  Result<engine::Run> ReadRun(const Json& answer) {
    TRY_ASSIGN(const Json* json, JsonObject(answer, "run", kAnswer));
    TRY_ASSIGN(engine::Run run, RunFromJson(*json, worker_->memory()));
    if (IsLost(run.findings)) worker_->End();
    return run;
  }

  std::shared_ptr<WorkerProcess> worker_;
  std::shared_ptr<GpuLock> lock_;
  int sets_ = 0;
  int64_t generation_ = 0;
};

}  // namespace

Status RemoteImages::Load(const build::Images& images,
                          std::span<const std::vector<std::string>> variables,
                          bool vary_surroundings) {
  TRY(worker_->Ensure());
  if (loaded_ == worker_->generation()) return {};
  bool worker_ended = false;
  Json list = Json::array();
  for (size_t i = 0; i < images.size(); ++i) {
    const build::Image& image = *images[i];
    const bool needs_ptx =
        image.cubin.empty() || (vary_surroundings && ReadsSurroundings(image.ptx));
    list.push_back({{"ptx", needs_ptx ? image.ptx : std::string()},
                    {"cubin", image.cubin.string()},
                    {"variables", variables[i]}});
  }
  const Json request{
      {"load", id_}, {"vary_surroundings", vary_surroundings}, {"images", std::move(list)}};
  TRY(worker_->Ask(request, &worker_ended));
  loaded_ = worker_->generation();
  return {};
}

void RemoteImages::Forget() {
  if (!worker_->running() || loaded_ != worker_->generation()) return;
  bool worker_ended = false;
  (void)worker_->Ask({{"forget", id_}}, &worker_ended);
}

RemoteProgram::RemoteProgram(std::shared_ptr<WorkerProcess> checker,
                             std::shared_ptr<WorkerProcess> timer, std::shared_ptr<GpuLock> lock,
                             build::Images images, std::vector<std::vector<std::string>> variables,
                             int64_t id)
    : lock_(std::move(lock)),
      images_(std::move(images)),
      variables_(std::move(variables)),
      checked_(std::move(checker), id),
      timed_(std::move(timer), id) {}

RemoteProgram::~RemoteProgram() {
  checked_.Forget();
  timed_.Forget();
}

Result<engine::Run> RemoteProgram::Execute(const plan::Plan& plan,
                                           std::span<const std::span<const std::byte>> arguments,
                                           const engine::RunOptions& options) {
  const Json start = start_;
  start_.erase("scramble");  // applies to one call only, even if that fails
  return RetryWhileBusy(PatienceWith(*lock_), checked_.worker().stop(),
                        [&] { return ExecuteNow(plan, arguments, options, start); });
}

Result<engine::Run> RemoteProgram::ExecuteNow(const plan::Plan& plan,
                                              std::span<const std::span<const std::byte>> arguments,
                                              const engine::RunOptions& options,
                                              const Json& start) {
  TRY_ASSIGN(const GpuHold hold, GpuHold::Shared(*lock_));
  WorkerProcess& worker = checked_.worker();
  if (plan::HasOperators(plan)) TRY(worker.NeedTorch());
  TRY(Load());
  uint64_t end = 0;
  TRY_ASSIGN(Json places, worker.Write(arguments, &end));
  const Json request{{"execute", checked_.id()}, {"plan", plan::ToJson(plan)},
                     {"poison", options.poison}, {"twice", options.full_checks},
                     {"seed", options.seed},     {"arguments", std::move(places)},
                     {"results", end},           {"start", start}};
  bool worker_ended = false;
  auto answer = worker.Ask(request, &worker_ended);
  if (!answer && worker_ended) {
    engine::Run run;
    run.findings.push_back(WorkerFault(answer.error()));
    return run;
  }
  TRY(answer);
  TRY_ASSIGN(const Json* json, JsonObject(*answer, "run", kAnswer));
  TRY_ASSIGN(engine::Run run, RunFromJson(*json, worker.memory()));
  if (IsLost(run.findings)) worker.End();
  return run;
}

Result<std::unique_ptr<engine::Timer>> MakeRemoteTimer(
    std::shared_ptr<WorkerProcess> worker, std::shared_ptr<GpuLock> lock,
    std::span<const engine::Entrant> entrants,
    std::span<const std::vector<std::span<const std::byte>>> sets) {
  const auto make = [&]() -> Result<std::unique_ptr<engine::Timer>> {
    auto timer = std::make_unique<RemoteTimer>(worker, lock);
    TRY(timer->Make(entrants, sets));
    return std::unique_ptr<engine::Timer>(std::move(timer));
  };
  return RetryWhileBusy(PatienceWith(*lock), worker->stop(), make);
}

Result<std::vector<std::vector<std::string>>> VariablesOf(const build::Images& images) {
  std::vector<std::vector<std::string>> names;
  for (const auto& image : images) {
    TRY_ASSIGN(const ptx::Module module, ptx::Parse(image->ptx));
    for (const ptx::Function& function : module.functions) {
      // The device heap would keep state between replays, and cannot be cleared.
      if (function.name == "malloc") {
        return Fail(ErrorCode::kUnsupported, "unsupported: malloc in a kernel");
      }
    }
    names.emplace_back();
    for (const ptx::Variable& variable : module.variables) {
      if (variable.space == ptx::Space::kGlobal || variable.space == ptx::Space::kConst) {
        names.back().push_back(variable.name);
      }
    }
  }
  return names;
}

}  // namespace cupel::gpu
