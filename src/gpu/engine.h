// The engine "gpu": plans run on a GPU in a worker process (worker.h), which is replaced after a
// fault, a hang or its own death, so that the next plan finds a sound one. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "engine/engine.h"

namespace cupel::gpu {

struct EngineOptions {
  std::filesystem::path program = "/proc/self/exe";  // that knows the command kWorkerCommand
  int ordinal = 0;
  std::filesystem::path locks;  // folder, shared by all cupels that use the GPU; empty: none
  bool will_time = false;       // start the timing worker at once, beside the other
  /// Of one request beyond what the worker allows its kernels: the start of a context, copies.
  std::chrono::seconds patience{60};
};

/// Starts the worker to learn which GPU it is. kEnvironment or kNotFound without one.
Result<std::unique_ptr<engine::Engine>> MakeGpuEngine(const EngineOptions& options);

}  // namespace cupel::gpu
