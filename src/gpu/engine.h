// The engine "gpu": runs plans on a GPU in a worker process (worker.h). The worker is replaced
// after a fault, a hang or a crash, so that the next plan runs in an intact one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace cupel::gpu {

struct EngineOptions {
  std::filesystem::path program = "/proc/self/exe";  // must implement the command kWorkerCommand
  int ordinal = 0;
  std::filesystem::path locks;  // folder, shared by all cupel processes on the GPU; empty: no locks
  bool will_time = false;       // start the timing worker together with the other one
  /// Time limit of a request in addition to the time that its kernels may take. For starting a
  /// context and for copies.
  std::chrono::seconds request_timeout{60};
  std::stop_token stop;  // all waits then end with kCancelled
  /// Called with true every few seconds while another process uses the GPU, then with false.
  std::function<void(bool waits)> waiting = {};
  /// The command that starts a worker with PyTorch, without the last two arguments: "check" or
  /// "time", and the GPU's number. Called at the first plan that has operators of PyTorch. If
  /// empty, such plans are kUnsupported.
  std::function<Result<std::vector<std::string>>()> torch_worker = {};
};

/// Starts the worker and reads the GPU's description from it. kEnvironment or kNotFound if there is
/// no GPU.
Result<std::unique_ptr<engine::Engine>> MakeGpuEngine(const EngineOptions& options);

}  // namespace cupel::gpu
