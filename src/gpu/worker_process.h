// cupel's end of a GPU worker: starts the process, asks, replaces it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <span>
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
  explicit WorkerProcess(EngineOptions options) : options_(std::move(options)) {}

  /// Starts a worker when there is none, without waiting until it is ready.
  Status Begin();
  /// There is a worker, and it is ready.
  Status Ensure();
  /// One answer. What the worker says is wrong is its Error; kInternal with `gone` set when it died
  /// or hung, after which there is none.
  Result<Json> Ask(const Json& request, bool* gone);
  /// What is still on the GPU ends with the process.
  void End();
  bool running() const { return process_.has_value(); }

  SharedMemory& memory() { return *memory_; }
  const Json& hello() const { return hello_; }  // what the worker begins with
  int64_t generation() const { return generation_; }

  /// Copies tensors to shared memory from `end` on, which moves behind them: [[at, bytes], …].
  Result<Json> Write(std::span<const std::span<const std::byte>> tensors, uint64_t* end);

 private:
  Result<Json> Read(std::chrono::steady_clock::time_point deadline);

  EngineOptions options_;
  std::optional<os::Process> process_;
  os::Fd channel_;
  std::optional<SharedMemory> memory_;
  Json hello_;
  int64_t generation_ = 0;
  bool ready_ = false;
  bool is_word_ = false;  // the last error was said by the worker, which lives
};

}  // namespace cupel::gpu
