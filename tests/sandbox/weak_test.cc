// The sandbox on Linux kernels that lack a protection. Each test runs in its own process, in which
// a filter refuses the system calls that such a kernel lacks. The remaining protections must be
// enough, or untrusted code must not start.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "os/process.h"
#include "os/sandbox.h"
#include "os/temp_dir.h"

namespace cupel::os {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::ExitedWithCode;

enum Refused : unsigned { kNamespaces = 1, kLandlock = 2, kSeccomp = 4 };

/// Makes the kernel lack `what` for this process.
void DisableProtections(unsigned what) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if ((what & kNamespaces) != 0) {
    for (const uint64_t flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET}) {
      seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                       SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
    }
  }
  if ((what & kLandlock) != 0) {
    seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SYS_landlock_create_ruleset, 0);
  }
  if ((what & kSeccomp) != 0) {
    seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(seccomp), 0);
  }
  if (seccomp_load(filter) != 0) _exit(99);
  seccomp_release(filter);
}

/// If `condition` is false, prints `what` and ends the process with status 1.
void Must(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "check failed: %s\n", what.c_str());
  _exit(1);
}

[[noreturn]] void Done() {
  std::fprintf(stderr, "all checks passed\n");
  _exit(0);
}

class WeakSandbox : public testing::Test {
 protected:
  WeakSandbox() : work_(*TempDir::Create()), secret_(*TempDir::Create()) {
    std::ofstream(secret_.path() / "secret") << "secret\n";
    confinement_.syscalls = SyscallProfile::kCompiler;
    confinement_.readable = {CUPEL_HOSTILE};
    confinement_.writable = {work_.path()};
    confinement_.processes = 20;
  }

  Result<RunResult> Attack(std::vector<std::string> argv, std::vector<int> extra = {}) {
    SpawnOptions options;
    options.argv = std::move(argv);
    options.argv.insert(options.argv.begin(), CUPEL_HOSTILE);
    options.confinement = &confinement_;
    options.extra_fds = std::move(extra);
    return os::Run(options, seconds(20));
  }

  void MustBeRefused(std::vector<std::string> argv) {
    const std::string mode = argv[0];
    const auto result = Attack(std::move(argv));
    Must(result.has_value(), mode + ": " + (result ? "" : result.error().message));
    Must(result->status.Describe() == "exit status 1", mode + ": " + result->status.Describe());
  }

  TempDir work_, secret_;
  Confinement confinement_;
};

TEST_F(WeakSandbox, LandlockAndTheFilterAreEnoughWithoutNamespaces) {
  if (ProbeSandbox().landlock_abi < 3) GTEST_SKIP() << "no Landlock on this machine";
  const auto body = [&] {
    DisableProtections(kNamespaces);
    const auto run = Attack({"write", work_.path() / "out"});
    Must(run.has_value(), run ? "" : run.error().message);
    Must(run->status.Describe() == "exit status 0", run->out);
    Must(run->sandbox->IsEnough() && !run->sandbox->mount_namespace, "the report is correct");
    Must(!run->sandbox->missing.empty(), "the report lists the missing protections");
    MustBeRefused({"read", secret_.path() / "secret"});
    MustBeRefused({"read", "/etc/passwd"});
    MustBeRefused({"write", secret_.path() / "new"});
    MustBeRefused({"inet"});
    MustBeRefused({"kill", std::to_string(getpid())});
    MustBeRefused({"ptrace"});
    MustBeRefused({"exec", "/bin/sh"});
    Done();
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "all checks passed");
}

TEST_F(WeakSandbox, StopsDaemonsWithoutPidNamespace) {
  if (ProbeSandbox().landlock_abi < 3) GTEST_SKIP() << "no Landlock on this machine";
  const auto body = [&] {
    DisableProtections(kNamespaces);
    for (const char* mode : {"daemon", "daemons"}) {
      int fds[2];
      Must(pipe2(fds, O_CLOEXEC) == 0, "a pipe can be created");
      const auto run = Attack({mode}, {fds[1]});
      Must(run.has_value() && run->status.exited, mode);
      close(fds[1]);
      // The pipe closes when the last daemon has ended.
      pollfd fd = {fds[0], POLLIN, 0};
      char byte = 0;
      Must(poll(&fd, 1, 5000) == 1 && read(fds[0], &byte, 1) == 0, "no daemon is left");
      close(fds[0]);
    }
    Done();
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "all checks passed");
}

TEST_F(WeakSandbox, RefusesUntrustedCodeWithoutFileIsolation) {
  const auto body = [&] {
    DisableProtections(kNamespaces | kLandlock);
    const auto run = Attack({"write", work_.path() / "out"});
    Must(!run && run.error().code == ErrorCode::kEnvironment, "the sandbox refuses to run it");
    Must(!fs::exists(work_.path() / "out"), "the program did not run");
    std::fprintf(stderr, "%s\n", run.error().ToString().c_str());
    _exit(0);
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "does not provide .*Landlock.*--allow-weak-sandbox");
}

TEST_F(WeakSandbox, RefusesUntrustedCodeWithoutSeccomp) {
  const auto body = [&] {
    DisableProtections(kSeccomp);
    const auto run = Attack({"uid"});
    Must(!run, "the sandbox refuses to run it");
    std::fprintf(stderr, "%s\n", run.error().message.c_str());
    _exit(0);
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "does not provide .*seccomp");
}

TEST_F(WeakSandbox, AllowWeakStartsAndReportsMissingProtections) {
  const auto body = [&] {
    DisableProtections(kNamespaces | kLandlock | kSeccomp);
    confinement_.allow_weak = true;
    const auto run = Attack({"write", work_.path() / "out"});
    Must(run.has_value() && run->status.Describe() == "exit status 0", "the program runs");
    Must(!run->sandbox->IsEnough(), "the report says that it is not enough");
    Must(run->sandbox->missing.size() >= 4, "the report lists the missing protections");
    Done();
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "all checks passed");
}

TEST_F(WeakSandbox, MountNamespaceAloneProtectsFiles) {
  if (!ProbeSandbox().mount_namespace) GTEST_SKIP() << "no namespaces on this machine";
  const auto body = [&] {
    DisableProtections(kLandlock);
    MustBeRefused({"read", secret_.path() / "secret"});
    MustBeRefused({"write", "/new"});
    Done();
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "all checks passed");
}

}  // namespace
}  // namespace cupel::os
