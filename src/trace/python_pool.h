// Locked-down Python processes with PyTorch, for hostile Python code. PyTorch takes seconds to
// import, so a trusted process (py/zygote.py) imports it once, in the sandbox, and forks a process
// for each candidate in milliseconds. The forked process locks itself (os::TracerLock), then runs
// tracer.serve(), which reads and executes the candidate's code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "base/json_fwd.h"
#include "base/result.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sandbox.h"

namespace cupel::trace {

struct PoolOptions {
  std::filesystem::path zygote;  // zygote.py
  std::filesystem::path tracer;  // the folder of tracer.py; must not contain secrets
  std::string python;            // as in oracle::FindPython
  /// The folder that remembers which Python to use, and what it reads. Empty: nothing is cached.
  std::filesystem::path cache;
  bool allow_weak_sandbox = false;  // os::Confinement::allow_weak; the lock is always required
};

struct ChildLimits {
  uint64_t cpu_seconds = 60;
  /// Memory of the whole process. PyTorch itself takes some hundred MB of it.
  uint64_t data_bytes = uint64_t{4} << 30;
};

class PythonPool;

/// A process that runs tracer.serve(). Move-only; not thread-safe. The pool must outlive it. The
/// destructor kills the process.
class PythonChild {
 public:
  PythonChild(PythonChild&& other) noexcept;
  PythonChild& operator=(PythonChild&& other) noexcept;
  ~PythonChild() { Kill(); }

  /// For os::ReadFrame and os::WriteFrame. What comes from it is hostile.
  int channel() const { return channel_.get(); }
  void Kill();
  /// Kills the process if it has not ended. "exit status 1", "killed by SIGXCPU" (the CPU limit),
  /// "killed by SIGKILL" (by this call, or because memory was short), "ended with the process that
  /// had forked it".
  std::string HowItEnded();

 private:
  friend class PythonPool;
  PythonChild(PythonPool* pool, int start, int64_t pid, os::Fd channel)
      : pool_(pool), start_(start), pid_(pid), channel_(std::move(channel)) {}

  PythonPool* pool_;
  int start_ = 0;  // which of the pool's processes has forked it
  int64_t pid_ = 0;
  os::Fd channel_;
  std::string how_it_ended_;  // empty: not known to have ended
};

/// Thread-safe.
class PythonPool {
 public:
  explicit PythonPool(PoolOptions options);
  PythonPool(const PythonPool&) = delete;
  PythonPool& operator=(const PythonPool&) = delete;
  ~PythonPool();

  /// Returns a process that is locked and waits for its first message. Starts PyTorch in the first
  /// call, and again if the process that forks has died. Errors: kEnvironment if PyTorch does not
  /// start or the sandbox is too weak; kCancelled after a stop request, which is noticed while
  /// PyTorch starts.
  Result<PythonChild> Fork(const ChildLimits& limits, const std::stop_token& stop = {});

  /// What protects the current processes, in addition to the lock. Nothing before the first Fork().
  os::SandboxReport sandbox() const;
  /// How often PyTorch was started.
  int starts() const;

 private:
  friend class PythonChild;
  struct Zygote {
    os::Process process;
    os::Fd control;
  };

  Status Start(const std::stop_token& stop);
  Status AwaitReady(const std::string& python, const std::stop_token& stop);
  /// Sends a request to the zygote and returns the answer. If there is none, ends the zygote and
  /// all processes that it forked.
  Result<Json> Ask(const Json& request, int passed);
  std::string End(int start, int64_t pid);

  const PoolOptions options_;
  mutable std::mutex mutex_;  // for all that follows
  std::optional<Zygote> zygote_;
  os::SandboxReport sandbox_;
  int starts_ = 0;
};

}  // namespace cupel::trace
