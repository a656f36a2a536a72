// SPDX-License-Identifier: Apache-2.0
#include "os/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "os/sandbox_child.h"

namespace cupel::os {
namespace {

/// The parent's handlers must not run here, and ignored signals would survive exec.
void ResetSignals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
}

void CloseRange(unsigned first, unsigned last) {
  if (syscall(SYS_close_range, first, last, 0) == 0) return;
  const long limit = sysconf(_SC_OPEN_MAX);
  for (unsigned fd = first; fd <= last && fd < static_cast<unsigned>(limit); ++fd) {
    close(static_cast<int>(fd));
  }
}

[[noreturn]] void FailChild(const ChildPlan& plan, ChildReport::Step step, int error) {
  Report(plan, step, error);
  _exit(127);
}

/// Moves the descriptors to their places and closes all others.
bool PlaceDescriptors(ChildPlan& plan) {
  const int places = 3 + static_cast<int>(plan.extra.size());
  const auto lift = [&](int& fd) {
    fd = fcntl(fd, F_DUPFD_CLOEXEC, places);
    return fd >= 0;
  };
  bool ok = lift(plan.report);
  for (int& fd : plan.standard) ok = ok && lift(fd);
  for (int& fd : plan.extra) ok = ok && lift(fd);
  for (int i = 0; ok && i < 3; ++i) ok = dup2(plan.standard[i], i) == i;
  for (int i = 3; ok && i < places; ++i) ok = dup2(plan.extra[static_cast<size_t>(i - 3)], i) == i;
  if (!ok) return false;
  // Keep the report pipe: it closes at exec, which shows the parent that exec succeeded.
  CloseRange(static_cast<unsigned>(places), static_cast<unsigned>(plan.report) - 1);
  CloseRange(static_cast<unsigned>(plan.report) + 1, ~0u);
  return true;
}

[[noreturn]] void RunTarget(ChildPlan& plan) {
  close(plan.lifeline);
  close(plan.status);
  setsid();
  if (!PlaceDescriptors(plan)) FailChild(plan, ChildReport::kDescriptors, errno);
  if (plan.sandbox != nullptr) RestrictIdentity(plan);
  if (plan.directory != nullptr && chdir(plan.directory) != 0) {
    FailChild(plan, ChildReport::kDirectory, errno);
  }
  // After the change of identity, which clears this setting. Init has one thread, so the signal
  // comes when init ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (plan.sandbox != nullptr && !RestrictCalls(plan)) {
    FailChild(plan, ChildReport::kTooWeak, EPERM);
  }
  Report(plan, ChildReport::kStarted, 0);
  execve(plan.argv[0], plan.argv, plan.env);
  FailChild(plan, ChildReport::kExec, errno);
}

/// Kills the direct children. Their orphans become ours, because this process is the subreaper.
void KillChildren() {
  const int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char buffer[512];
  pid_t pid = 0;
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) {
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] >= '0' && buffer[i] <= '9') {
        pid = pid * 10 + (buffer[i] - '0');
      } else if (pid > 1) {
        kill(pid, SIGKILL);
        pid = 0;
      }
    }
  }
  close(fd);
}

/// Ends init and everything below it.
[[noreturn]] void EndAll(const ChildPlan& plan, pid_t target) {
  // The end of process 1 ends its namespace. Without a PID namespace, kill the tree from the root.
  if (!plan.pid_namespace) {
    // The list of children may miss a child that starts while the list is read. So do not wait for
    // particular children, but kill, reap and list again until none is left.
    kill(-target, SIGKILL);
    const timespec moment{0, 200'000};
    for (int round = 0; round < 12000; ++round) {
      KillChildren();
      pid_t pid = 0;
      int status = 0;
      while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      }
      if (pid < 0 && errno == ECHILD) break;
      // Do not pause in the first rounds, so that a process cannot fork faster than it is killed.
      if (round > 100) nanosleep(&moment, nullptr);
    }
  }
  _exit(0);
}

/// Reaps children until the target has ended (returns true and sets `status`) or no other child has
/// ended yet (returns false).
bool ReapUntil(pid_t target, int& status) {
  for (;;) {
    int current = 0;
    const pid_t pid = waitpid(-1, &current, WNOHANG);
    if (pid == target) {
      status = current;
      return true;
    }
    if (pid <= 0 && !(pid < 0 && errno == EINTR)) return false;
  }
}

/// Sends SIGTERM to the target and waits up to `grace_ms` for its end.
void TerminateTarget(const ChildPlan& plan, pid_t target) {
  kill(-target, SIGTERM);
  const timespec moment{0, 10'000'000};
  int status = 0;
  for (int left = plan.grace_ms / 10; left > 0 && !ReapUntil(target, status); --left) {
    nanosleep(&moment, nullptr);
  }
}

[[noreturn]] void Supervise(const ChildPlan& plan, pid_t target, int signals) {
  for (;;) {
    pollfd fds[2] = {{plan.lifeline, POLLIN, 0}, {signals, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) EndAll(plan, target);
    if ((fds[1].revents & POLLIN) != 0) {
      signalfd_siginfo info{};
      (void)!read(signals, &info, sizeof info);
      // The target and its children have their own process group (setsid).
      if (info.ssi_signo == SIGTERM) kill(-target, SIGTERM);
      int status = 0;
      if (ReapUntil(target, status)) {
        (void)!write(plan.status, &status, sizeof status);
        EndAll(plan, target);
      }
    }
    if (fds[0].revents != 0) {
      if (plan.grace_ms > 0) TerminateTarget(plan, target);
      EndAll(plan, target);
    }
  }
}

}  // namespace

void Report(const ChildPlan& plan, ChildReport::Step step, int error, int detail) {
  const ChildReport report{step, error, detail};
  (void)!write(plan.report, &report, sizeof report);
}

void RunInit(ChildPlan& plan) {
  ResetSignals();
  for (const ChildPlan::Range& range : plan.close) CloseRange(range.first, range.last);
  setsid();
  prctl(PR_SET_NAME, "cupel-init");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (plan.go >= 0) {
    char root_map = 0;
    if (read(plan.go, &root_map, 1) != 1) _exit(127);  // the parent has ended
    plan.root_map = root_map != 0;
    close(plan.go);
  }
  // This memory is a copy of cupel's, so even our own children must not read it.
  if (plan.sandbox != nullptr) EnterView(plan);
  prctl(PR_SET_DUMPABLE, 0);

  // All signals have been blocked since before the clone.
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  sigaddset(&wanted, SIGTERM);  // passed on: Process::Terminate
  const int signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  const pid_t target = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (target == 0) RunTarget(plan);
  if (target < 0 || signals < 0) FailChild(plan, ChildReport::kFork, errno);
  // Close the target's pipe ends here: readers wait for the end of the stream.
  for (const int fd : plan.standard) close(fd);
  for (const int fd : plan.extra) close(fd);
  close(plan.report);
  Supervise(plan, target, signals);
}

}  // namespace cupel::os
