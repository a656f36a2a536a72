// SPDX-License-Identifier: Apache-2.0
#include "os/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "os/child.h"
#include "os/sandbox.h"
#include "os/sandbox_plan.h"
#include "os/stop.h"

namespace cupel::os {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  Fd read, write;
};

Result<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot make a pipe: {}", std::strerror(errno)),
                "raise the limit of open files (ulimit -n)");
  }
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

/// Pointers to the strings, with a null at the end. The strings must outlive the spawn.
std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Everything outside `keep`, as ranges for close_range(2).
std::vector<ChildPlan::Range> Complement(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  std::vector<ChildPlan::Range> ranges;
  unsigned next = 0;
  for (const int fd : keep) {
    if (fd < 0) continue;
    const unsigned current = static_cast<unsigned>(fd);
    if (current > next) ranges.push_back({next, current - 1});
    next = std::max(next, current + 1);
  }
  ranges.push_back({next, ~0u});
  return ranges;
}

/// fork(2) with namespaces and a pidfd, without glibc's fork handlers, which may wait for locks
/// that other threads hold. The child starts with all signals blocked.
pid_t CloneChild(uint64_t namespaces, ChildPlan& plan, int* pidfd) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);
  const long pid = syscall(SYS_clone, namespaces | CLONE_PIDFD | SIGCHLD, 0, pidfd, 0, 0);
  if (pid == 0) RunInit(plan);
  const int saved = errno;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  errno = saved;
  return static_cast<pid_t>(pid);
}

/// The pipes and strings of one spawn. They must live until the child has called exec.
struct Launch {
  std::vector<std::string> argv, env;
  std::vector<char*> argv_pointers, env_pointers;
  Pipe in, out, err, lifeline, status, report, go;
  Fd null;
  ChildPlan plan;
};

Status PrepareStandard(const SpawnOptions& options, Launch& launch) {
  launch.null = Fd(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!launch.null) return Fail(ErrorCode::kEnvironment, "cannot open /dev/null");
  int* standard = launch.plan.standard;
  for (int i = 0; i < 3; ++i) standard[i] = launch.null.get();
  if (options.pipe_stdin) {
    TRY_ASSIGN(launch.in, MakePipe());
    standard[0] = launch.in.read.get();
  }
  if (options.pipe_stdout) {
    TRY_ASSIGN(launch.out, MakePipe());
    standard[1] = launch.out.write.get();
  }
  if (options.pipe_stderr && !options.merge_stderr) {
    TRY_ASSIGN(launch.err, MakePipe());
    standard[2] = launch.err.write.get();
  }
  if (options.merge_stderr) standard[2] = standard[1];
  return {};
}

Status Prepare(const SpawnOptions& options, Launch& launch) {
  if (options.argv.empty() || options.argv[0].find('/') == std::string::npos) {
    return Fail(ErrorCode::kInternal, "a child needs the path of its program");
  }
  launch.argv = options.argv;
  for (const auto& [name, value] : options.env)
    launch.env.push_back(fmt::format("{}={}", name, value));
  launch.argv_pointers = Pointers(launch.argv);
  launch.env_pointers = Pointers(launch.env);
  TRY(PrepareStandard(options, launch));
  TRY_ASSIGN(launch.lifeline, MakePipe());
  TRY_ASSIGN(launch.status, MakePipe());
  TRY_ASSIGN(launch.report, MakePipe());
  ChildPlan& plan = launch.plan;
  plan.argv = launch.argv_pointers.data();
  plan.env = launch.env_pointers.data();
  plan.directory = options.directory.empty() ? nullptr : options.directory.c_str();
  // Must be less than the time that Reap() waits for init.
  plan.grace_ms = static_cast<int>(std::clamp<int64_t>(options.grace.count(), 0, 4000));
  plan.extra = options.extra_fds;
  plan.lifeline = launch.lifeline.read.get();
  plan.status = launch.status.write.get();
  plan.report = launch.report.write.get();
  return {};
}

tl::unexpected<Error> TooWeak(const std::string& program, const SandboxReport& sandbox) {
  return Fail(
      ErrorCode::kEnvironment,
      fmt::format("{} was not started on untrusted code: the operating system does not provide the "
                  "required sandbox (missing: {})",
                  program, fmt::join(sandbox.missing, "; ")),
      "run cupel on a system that allows system call filters (seccomp) and either namespaces or "
      "Landlock (ABI 3, Linux 6.2); cupel doctor shows what this system allows. For kernels that "
      "you trust, use --allow-weak-sandbox or CUPEL_ALLOW_WEAK_SANDBOX=1");
}

/// Reads the child's reports until it has called exec or failed.
Status ReadReports(const Fd& pipe, const std::string& program, const ChildPlan& plan,
                   SandboxReport& sandbox) {
  bool started = false;
  for (;;) {
    ChildReport report;
    const ssize_t n = read(pipe.get(), &report, sizeof report);
    if (n < 0 && errno == EINTR) continue;
    if (n != static_cast<ssize_t>(sizeof report)) break;
    started = true;
    const char* what = std::strerror(report.error);
    switch (report.step) {
      case ChildReport::kExec:
        return Fail(report.error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                    fmt::format("cannot start {}: {}", program, what));
      case ChildReport::kDirectory:
        return Fail(ErrorCode::kIo,
                    fmt::format("cannot start {} in {}: {}", program, plan.directory, what));
      case ChildReport::kTooWeak:
        return TooWeak(program, sandbox);
      case ChildReport::kFork:
      case ChildReport::kDescriptors:
        return Fail(ErrorCode::kIo, fmt::format("cannot start {}: {}", program, what),
                    "raise the limits of processes and open files (ulimit -u, -n)");
      default:
        if (plan.sandbox != nullptr) NoteReport(*plan.sandbox, report, sandbox);
    }
  }
  if (!started) return Fail(ErrorCode::kIo, fmt::format("cannot start {}: it was killed", program));
  return {};
}

}  // namespace

std::string ExitStatus::Describe() const {
  if (timed_out) return fmt::format("killed after {:g} s", seconds);
  if (exited) return fmt::format("exit status {}", code);
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("killed by SIG{}", name)
                         : fmt::format("killed by signal {}", signal);
}

Result<Process> Process::Spawn(const SpawnOptions& options) {
  if (options.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "cancelled");
  Launch launch;
  TRY(Prepare(options, launch));
  ChildPlan& plan = launch.plan;
  Process process;
  process.sandbox_ = std::make_unique<SandboxReport>();
  SandboxPlan sandbox;
  if (options.confinement != nullptr) {
    TRY(PlanSandbox(*options.confinement, sandbox, *process.sandbox_));
    plan.sandbox = &sandbox;
    TRY_ASSIGN(launch.go, MakePipe());
    plan.go = launch.go.read.get();
  }
  std::vector<int> keep = plan.extra;
  keep.insert(keep.end(), {plan.standard[0], plan.standard[1], plan.standard[2], plan.lifeline,
                           plan.status, plan.report, plan.go});
  plan.close = Complement(std::move(keep));

  int pidfd = -1;
  pid_t pid = -1;
  if (plan.sandbox == nullptr) {
    pid = CloneChild(0, plan, &pidfd);
  } else {
    // One call grants all requested namespaces or none, so retry without the least useful ones.
    int error = 0;
    for (const uint64_t flags : NamespaceChoices(sandbox)) {
      plan.user_namespace = (flags & CLONE_NEWUSER) != 0;
      plan.mount_namespace = (flags & CLONE_NEWNS) != 0;
      plan.pid_namespace = (flags & CLONE_NEWPID) != 0;
      pid = CloneChild(flags, plan, &pidfd);
      if (pid >= 0) {
        NoteNamespaces(sandbox, flags, error, *process.sandbox_);
        break;
      }
      error = errno;
    }
  }
  if (pid < 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot start a process: {}", std::strerror(errno)),
                "raise the limit of processes (ulimit -u) or free memory");
  }
  process.pid_ = pid;
  process.stop_ = options.stop;
  process.pidfd_ = Fd(pidfd);
  process.lifeline_ = std::move(launch.lifeline.write);
  process.status_ = std::move(launch.status.read);
  process.stdin_ = std::move(launch.in.write);
  process.stdout_ = std::move(launch.out.read);
  process.stderr_ = std::move(launch.err.read);
  if (plan.sandbox != nullptr) {
    const char byte = WriteIdMaps(sandbox, pid, *process.sandbox_) ? 1 : 0;
    (void)!write(launch.go.write.get(), &byte, 1);
  }
  // Close our copy of the child's end. Else the end of the stream would not be seen.
  launch.report.write.Close();
  TRY(ReadReports(launch.report.read, options.argv[0], plan, *process.sandbox_));
  return process;
}

Process::Process(Process&& other) noexcept { *this = std::move(other); }

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    Kill();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    lifeline_ = std::move(other.lifeline_);
    status_ = std::move(other.status_);
    stdin_ = std::move(other.stdin_);
    stdout_ = std::move(other.stdout_);
    stderr_ = std::move(other.stderr_);
    stop_ = std::move(other.stop_);
    finished_ = other.finished_;
    sandbox_ = std::move(other.sandbox_);
  }
  return *this;
}

Process::~Process() { Kill(); }

const SandboxReport& Process::sandbox() const { return *sandbox_; }

Result<ExitStatus> Process::Wait(std::optional<std::chrono::milliseconds> deadline) {
  if (finished_) return *finished_;
  if (pid_ < 0) return Fail(ErrorCode::kInternal, "no process to wait for");
  const auto end = Clock::now() + deadline.value_or(std::chrono::hours(24 * 365));
  const StopFd stop_fd(stop_);
  for (;;) {
    if (stop_.stop_requested()) {
      Kill();
      return Fail(ErrorCode::kCancelled, "cancelled");
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd fds[2] = {{status_.get(), POLLIN, 0}, {stop_fd.get(), POLLIN, 0}};
    const auto timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
    const int n = poll(fds, 2, stop_fd.Limit(timeout));
    if (n > 0 && fds[0].revents != 0) {
      Reap();
      return *finished_;
    }
    if (n == 0 && left <= 0) break;
  }
  Kill();
  finished_->timed_out = true;
  finished_->exited = false;
  finished_->signal = SIGKILL;
  finished_->seconds = std::chrono::duration<double>(*deadline).count();
  return *finished_;
}

void Process::Kill() {
  if (pid_ < 0 || finished_) return;
  // When the lifeline closes, init ends all its descendants. In a PID namespace, killing init ends
  // them too. Outside one, init must not be killed first.
  lifeline_.Close();
  if (sandbox_ != nullptr && sandbox_->pid_namespace) {
    syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  }
  Reap();
}

void Process::Terminate() {
  if (pid_ < 0 || finished_) return;
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGTERM, nullptr, 0);  // init passes it on
}

void Process::Reap() {
  ExitStatus status;
  int raw = 0;
  ssize_t n = 0;
  // Wait until init has ended. Then read the target's status, which is there if the target ended by
  // itself.
  pollfd fd = {pidfd_.get(), POLLIN, 0};
  while (poll(&fd, 1, 5000) < 0 && errno == EINTR) {
  }
  if (fd.revents == 0) {
    syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  }
  int init_status = 0;
  while (waitpid(pid_, &init_status, 0) < 0 && errno == EINTR) {
  }
  fcntl(status_.get(), F_SETFL, O_NONBLOCK);
  n = read(status_.get(), &raw, sizeof raw);
  if (n != static_cast<ssize_t>(sizeof raw)) {
    status.signal = SIGKILL;
  } else if (WIFEXITED(raw)) {
    status.exited = true;
    status.code = WEXITSTATUS(raw);
  } else {
    status.signal = WTERMSIG(raw);
  }
  finished_ = status;
  lifeline_.Close();
}

std::map<std::string, std::string> CurrentEnvironment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace cupel::os
