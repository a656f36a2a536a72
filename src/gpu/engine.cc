// Tested by engine_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/engine.h"

#include <memory>
#include <string>
#include <utility>

#include "gpu/patience.h"
#include "gpu/remote.h"
#include "gpu/timing_protocol.h"
#include "gpu/worker_process.h"
#include "records/json.h"

namespace cupel::gpu {
namespace {

class GpuEngine : public engine::Engine {
 public:
  GpuEngine(std::shared_ptr<WorkerProcess> checker, std::shared_ptr<WorkerProcess> timer,
            GpuLock lock, device::Description device)
      : checker_(std::move(checker)),
        timer_(std::move(timer)),
        lock_(std::make_shared<GpuLock>(std::move(lock))),
        device_(std::move(device)) {}

  std::string Name() const override { return "gpu"; }
  const device::Description& Device() const override { return device_; }

  Result<std::unique_ptr<engine::Program>> Load(const build::Images& images) override {
    TRY_ASSIGN(auto variables, VariablesOf(images));
    auto program = std::make_unique<RemoteProgram>(checker_, timer_, lock_, images,
                                                   std::move(variables), ++programs_);
    TRY(program->Load());
    return program;
  }

  Result<std::shared_ptr<void>> Reserve() override {
    TRY(lock_->Acquire(GpuLock::Use::kAlone));
    return std::shared_ptr<void>(lock_.get(), [lock = lock_](void*) { lock->Release(); });
  }

  Result<std::shared_ptr<void>> PutOffMeasurements() override {
    TRY(lock_->BeginBuilding());
    return std::shared_ptr<void>(lock_.get(), [lock = lock_](void*) { lock->EndBuilding(); });
  }

  Result<std::unique_ptr<engine::Timer>> MakeTimer(
      std::span<const engine::Entrant> entrants,
      std::span<const std::vector<std::span<const std::byte>>> sets) override {
    return MakeRemoteTimer(timer_, lock_, entrants, sets);
  }

  Result<records::GpuState> State() override {
    TRY_ASSIGN(const Json answer, Ask("state"));
    return records::ReadGpuState(answer, "state");
  }

  Result<records::Ceilings> MeasureCeilings() override {
    return RetryWhileBusy(kForMemory, timer_->stop(), [this]() -> Result<records::Ceilings> {
      TRY(lock_->Acquire(GpuLock::Use::kAlone));
      auto answered = Ask("ceilings");
      lock_->Release();
      TRY_ASSIGN(const Json answer, std::move(answered));
      return records::ReadCeilings(answer, "ceilings");
    });
  }

  Result<engine::ClockKernels> Kernels() override {
    TRY_ASSIGN(const Json answer, Ask("kernels"));
    return ClockKernelsFromJson(answer);
  }

 private:
  Result<Json> Ask(const char* what) {
    bool worker_ended = false;
    return timer_->Ask({{what, 1}}, &worker_ended);
  }

  std::shared_ptr<WorkerProcess> checker_, timer_;
  std::shared_ptr<GpuLock> lock_;
  device::Description device_;
  int64_t programs_ = 0;
};

}  // namespace

Result<std::unique_ptr<engine::Engine>> MakeGpuEngine(const EngineOptions& options) {
  constexpr const char* kWorker = "the GPU worker";
  auto checker = std::make_shared<WorkerProcess>(options, "check");
  auto timer = std::make_shared<WorkerProcess>(options, "time");
  TRY(checker->Begin());
  if (options.will_time) TRY(timer->Begin());
  TRY(checker->Ensure());
  const Json& hello = checker->hello();
  TRY_ASSIGN(const std::string name, JsonString(hello, "description", kWorker));
  TRY_ASSIGN(const std::string full_name, JsonString(hello, "device", kWorker));
  TRY_ASSIGN(const std::string uuid, JsonString(hello, "uuid", kWorker));
  TRY_ASSIGN(const int64_t sms, JsonInt(hello, "sm_count", kWorker));
  TRY_ASSIGN(device::Description device, device::Find(name));
  device.full_name = full_name;
  device.sm_count = static_cast<int>(sms);
  device.uuid = uuid;
  TRY_ASSIGN(GpuLock lock, GpuLock::Open(options.locks, uuid, options.stop, options.waiting));
  return std::unique_ptr<engine::Engine>(std::make_unique<GpuEngine>(
      std::move(checker), std::move(timer), std::move(lock), std::move(device)));
}

}  // namespace cupel::gpu
