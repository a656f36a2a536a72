// Programs and timers in a GPU worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/state.h"
#include "gpu/gpu_lock.h"
#include "gpu/worker_process.h"

namespace cupel::gpu {

/// A program's images in a worker. They are loaded again after the worker was replaced.
class RemoteImages {
 public:
  RemoteImages(std::shared_ptr<WorkerProcess> worker, int64_t id)
      : worker_(std::move(worker)), id_(id) {}
  /// `variables` and `vary_surroundings`: ReplayOptions.
  Status Load(const build::Images& images, std::span<const std::vector<std::string>> variables,
              bool vary_surroundings);
  void Forget();
  WorkerProcess& worker() { return *worker_; }
  int64_t id() const { return id_; }

 private:
  std::shared_ptr<WorkerProcess> worker_;
  int64_t id_;
  int64_t loaded_ = 0;  // generation of the worker that has loaded the images
};

/// Checks in one worker and times in another, so that a kernel cannot pass hidden data from checks
/// to timing.
class RemoteProgram : public engine::Program, public engine::StateKeeper {
 public:
  RemoteProgram(std::shared_ptr<WorkerProcess> checker, std::shared_ptr<WorkerProcess> timer,
                std::shared_ptr<GpuLock> lock, build::Images images,
                std::vector<std::vector<std::string>> variables, int64_t id);
  ~RemoteProgram() override;

  Status Load() { return checked_.Load(images_, variables_, true); }
  Status LoadForTiming() { return timed_.Load(images_, variables_, false); }
  int64_t id() const { return timed_.id(); }
  /// Waits up to three minutes for memory that other processes use.
  Result<engine::Run> Execute(const plan::Plan& plan,
                              std::span<const std::span<const std::byte>> arguments,
                              const engine::RunOptions& options) override;
  void KeepState() override { start_["kept"] = true; }
  void ForgetState() override { start_["kept"] = false; }
  void ScrambleState(uint64_t seed) override { start_["scramble"] = seed; }

 private:
  Result<engine::Run> ExecuteNow(const plan::Plan& plan,
                                 std::span<const std::span<const std::byte>> arguments,
                                 const engine::RunOptions& options, const Json& start);

  std::shared_ptr<GpuLock> lock_;
  build::Images images_;
  std::vector<std::vector<std::string>> variables_;  // by image
  RemoteImages checked_, timed_;
  Json start_{{"kept", false}};  // the start state of the next call, for the worker
};

/// The timer uses the GPU alone until it is destroyed.
Result<std::unique_ptr<engine::Timer>> MakeRemoteTimer(
    std::shared_ptr<WorkerProcess> worker, std::shared_ptr<GpuLock> lock,
    std::span<const engine::Entrant> entrants,
    std::span<const std::vector<std::span<const std::byte>>> sets);

/// Names of each image's variables in global and constant memory. kUnsupported for PTX that cannot
/// be read.
Result<std::vector<std::vector<std::string>>> VariablesOf(const build::Images& images);

}  // namespace cupel::gpu
