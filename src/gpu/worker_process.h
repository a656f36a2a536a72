// cupel's side of a GPU worker: starts the process, sends requests, replaces it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/json.h"
#include "gpu/engine.h"
#include "gpu/shared_memory.h"
#include "os/fd.h"
#include "os/process.h"

namespace cupel::gpu {

/// Started on demand. Not thread-safe.
class WorkerProcess {
 public:
  /// `purpose`: "check" or "time" (EngineOptions::torch_worker).
  WorkerProcess(EngineOptions options, std::string purpose)
      : options_(std::move(options)), purpose_(std::move(purpose)) {}

  /// Workers must have PyTorch from now on. Ends one that has not.
  Status NeedTorch();

  /// Starts a worker if there is none. Does not wait until it is ready.
  Status Begin();
  /// Starts a worker if there is none, and waits until it is ready.
  Status Ensure();
  /// Sends a request and returns the answer, or the Error that the worker reported. If the worker
  /// crashed or hung, sets `*worker_ended` and ends it.
  Result<Json> Ask(const Json& request, bool* worker_ended);
  /// Kills the worker. Its kernels on the GPU end with the process.
  void End();
  bool running() const { return process_.has_value(); }
  const std::stop_token& stop() const { return options_.stop; }

  SharedMemory& memory() { return *memory_; }
  const Json& hello() const { return hello_; }  // the worker's first message
  int64_t generation() const { return generation_; }

  /// Copies tensors to shared memory from position `*end` on and moves `*end` behind them. Returns
  /// their places as [[at, bytes], …].
  Result<Json> Write(std::span<const std::span<const std::byte>> tensors, uint64_t* end);

 private:
  Result<Json> Read(std::chrono::steady_clock::time_point deadline);

  EngineOptions options_;
  std::string purpose_;
  std::vector<std::string> torch_worker_;  // the command; empty: workers without PyTorch
  std::optional<os::Process> process_;
  os::Fd channel_;
  std::optional<SharedMemory> memory_;
  Json hello_;
  int64_t generation_ = 0;
  bool ready_ = false;
  bool is_worker_error_ = false;  // the worker reported the last error and is still running
};

}  // namespace cupel::gpu
