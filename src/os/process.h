// Child processes: argv vectors (never a shell), pipes, deadlines. No descendant is left running.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace cupel::os {

struct Confinement;
struct SandboxReport;

struct SpawnOptions {
  std::vector<std::string> argv;             // argv[0] is a path
  std::map<std::string, std::string> env;    // the whole environment of the child
  std::filesystem::path directory;           // working directory; empty keeps ours
  const Confinement* confinement = nullptr;  // null: a trusted child
  bool pipe_stdin = false;                   // else /dev/null
  bool pipe_stdout = false;                  // else /dev/null
  bool pipe_stderr = false;                  // else /dev/null
  bool merge_stderr = false;                 // stderr is written to where stdout is
  /// How long the child may take to end after SIGTERM before it is killed, at most 4 s. Applies to
  /// Kill() and to any end of this process. For launchers that hold remote resources (srun).
  std::chrono::milliseconds grace{0};
  /// Descriptors the child gets as 3, 4, … in this order. All others are closed.
  std::vector<int> extra_fds;
  /// After a stop request, Spawn, Wait and Run return kCancelled at once, and the child is killed.
  std::stop_token stop;
};

/// This process's environment variables, to pass on to a child.
std::map<std::string, std::string> CurrentEnvironment();

struct ExitStatus {
  bool exited = false;  // else killed by `signal`
  int code = 0;
  int signal = 0;
  bool timed_out = false;  // we killed it at the deadline
  double seconds = 0;      // the deadline, when timed_out
  /// "exit status 1", "killed by SIGSEGV", "killed after 10 s".
  std::string Describe() const;
};

/// A child process. Move-only. The child and its descendants never outlive this object or this
/// process, even if this process is killed with kill -9. The destructor kills the child and
/// everything it started (PID namespace or process group) and reaps it.
class Process {
 public:
  static Result<Process> Spawn(const SpawnOptions& options);
  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;
  ~Process();

  Fd& stdin_pipe() { return stdin_; }
  Fd& stdout_pipe() { return stdout_; }
  Fd& stderr_pipe() { return stderr_; }
  pid_t pid() const { return pid_; }
  const SandboxReport& sandbox() const;

  /// Waits until exit or deadline; at the deadline kills and reports timed_out. After a stop
  /// request kills and returns kCancelled.
  Result<ExitStatus> Wait(std::optional<std::chrono::milliseconds> deadline);
  void Kill();
  /// Asks the child to end (SIGTERM to its process group) and does not wait.
  void Terminate();

 private:
  Process() = default;
  void Reap();

  pid_t pid_ = -1;  // of init (see child.h), the parent of all the child's processes
  Fd pidfd_, lifeline_, status_, stdin_, stdout_, stderr_;
  std::stop_token stop_;
  std::optional<ExitStatus> finished_;
  std::unique_ptr<SandboxReport> sandbox_;
};

struct RunResult {
  ExitStatus status;
  std::string out, err;  // at most `max_output` bytes each
  bool out_truncated = false, err_truncated = false;
  std::shared_ptr<const SandboxReport> sandbox;  // null unless the child was confined
  double seconds = 0;
};

/// Spawns the child, writes `input` to it, collects its output, waits. Sets the pipe_* options
/// itself. `on_error_output`, if given, is called with each new part of RunResult::err.
Result<RunResult> Run(SpawnOptions options, std::chrono::milliseconds deadline,
                      size_t max_output = 4u << 20, std::string_view input = {},
                      const std::function<void(std::string_view)>& on_error_output = {});

}  // namespace cupel::os
