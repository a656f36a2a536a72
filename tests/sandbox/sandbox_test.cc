// Attacks from inside the sandbox (hostile.c, traps.cc). Each must fail, or leave nothing behind,
// for any user that runs the tests.
// SPDX-License-Identifier: Apache-2.0
#include "os/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "os/fd.h"
#include "os/process.h"
#include "os/temp_dir.h"

namespace cupel::os {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Test;

class Sandbox : public Test {
 protected:
  Sandbox() : work_(*TempDir::Create()), secret_(*TempDir::Create()) {
    std::ofstream(secret_.path() / "secret") << "secret\n";
    std::ofstream(shared_ = secret_.path() / "shared") << "shared\n";
    confinement_.syscalls = SyscallProfile::kCompiler;
    confinement_.readable = {CUPEL_HOSTILE, shared_};
    confinement_.writable = {work_.path()};
    confinement_.address_space_bytes = 256u << 20;
    confinement_.file_bytes = 8u << 20;
    confinement_.cpu_seconds = 2;
    confinement_.processes = 20;
  }

  SpawnOptions Attack(std::vector<std::string> argv) {
    SpawnOptions options;
    options.argv = std::move(argv);
    options.argv.insert(options.argv.begin(), CUPEL_HOSTILE);
    options.confinement = &confinement_;
    return options;
  }

  RunResult Run(const SpawnOptions& options, milliseconds deadline = seconds(20)) {
    auto result = os::Run(options, deadline);
    EXPECT_TRUE(result) << (result ? "" : result.error().ToString());
    return result ? *result : RunResult{};
  }

  /// Asserts that an attack ran and was refused. Returns the first line of its output.
  std::string Refused(std::vector<std::string> argv) {
    const std::string mode = argv[0] + (argv.size() > 1 ? " " + argv[1] : "");
    const RunResult result = Run(Attack(std::move(argv)));
    EXPECT_EQ(result.status.Describe(), "exit status 1") << mode << ": " << result.out;
    return result.out.substr(0, result.out.find('\n'));
  }

  TempDir work_, secret_;
  fs::path shared_;
  Confinement confinement_;
};

/// Waits until no process has the write end of a pipe, which processes inherit. False on time-out.
bool EndsWithin(int read_end, milliseconds limit) {
  pollfd fd = {read_end, POLLIN, 0};
  char byte;
  return poll(&fd, 1, static_cast<int>(limit.count())) == 1 && read(read_end, &byte, 1) == 0;
}

TEST_F(Sandbox, HasAllProtectionsOnThisMachine) {
  const SandboxReport report = ProbeSandbox();
  if (!report.missing.empty()) GTEST_SKIP() << "the kernel refuses: " << report.missing[0];
  EXPECT_TRUE(report.user_namespace && report.mount_namespace && report.pid_namespace);
  EXPECT_TRUE(report.network_namespace && report.landlock && report.seccomp);
  EXPECT_GE(report.landlock_abi, 1);
}

TEST_F(Sandbox, ShowsOnlyListedFiles) {
  EXPECT_EQ(Run(Attack({"read", shared_})).status.Describe(), "exit status 0");
  Refused({"read", "/etc/passwd"});
  Refused({"read", secret_.path() / "secret"});
  Refused({"list", "/root"});
  Refused({"list", "/home"});
  Refused({"read", "/proc/self/environ"});
  Refused({"read", "/proc/1/mem"});
  Refused({"link", work_.path() / "link"});
}

TEST_F(Sandbox, WritesOnlyToWritableFolders) {
  EXPECT_EQ(Run(Attack({"write", work_.path() / "out"})).status.Describe(), "exit status 0");
  EXPECT_TRUE(fs::exists(work_.path() / "out"));
  Refused({"write", shared_});
  Run(Attack({"write", secret_.path() / "new"}));  // may succeed in its private /tmp
  EXPECT_FALSE(fs::exists(secret_.path() / "new"));
  Refused({"write", "/new"});
  // Landlock alone does not stop the owner of a file from changing its mode.
  if (ProbeSandbox().mount_namespace) Refused({"chmod", shared_});
  Refused({"write", CUPEL_HOSTILE});
  Refused({"disk", work_.path() / "big"});
  EXPECT_LE(fs::file_size(work_.path() / "big"), 8u << 20);
  // The sandbox has a private /tmp.
  Run(Attack({"write", "/tmp/cupel-sandbox-test"}));
  EXPECT_FALSE(fs::exists("/tmp/cupel-sandbox-test"));
}

TEST_F(Sandbox, BlocksNetworkAndPrivilegedCalls) {
  EXPECT_EQ(Refused({"inet"}), "EPERM");
  EXPECT_EQ(Refused({"unix", "/run/dbus/system_bus_socket"}), "EPERM");
  Refused({"mount"});
  Refused({"escape"});
  Refused({"calls"});
  Refused({"ptrace"});
}

TEST_F(Sandbox, BlocksSignalsToOtherProcesses) {
  Refused({"kill", std::to_string(getpid())});
  Refused({"kill", std::to_string(getppid())});
  Refused({"kill", "1"});
  Refused({"killall"});
}

TEST_F(Sandbox, AllowsProgramsOnlyListedDevices) {
  const std::string before = Refused({"write", "/dev/full"});
  confinement_.syscalls = SyscallProfile::kProgram;
  confinement_.devices = {"/dev/full", "/dev/no-such-device"};
  confinement_.processes_view = true;
  EXPECT_EQ(Run(Attack({"write", "/dev/full"})).status.Describe(), "exit status 0") << before;
  EXPECT_EQ(Run(Attack({"read", "/proc/self/status"})).status.Describe(), "exit status 0");
  EXPECT_EQ(Run(Attack({"write", "/proc/self/comm"})).status.Describe(), "exit status 0");
  Refused({"list", fmt::format("/proc/{}", getpid())});
  Refused({"write", "/proc/sys/kernel/core_pattern"});
  Refused({"read", "/etc/passwd"});
  Refused({"read", secret_.path() / "secret"});
  EXPECT_EQ(Refused({"inet"}), "EPERM");
  EXPECT_EQ(Refused({"unix", "/run/dbus/system_bus_socket"}), "ECONNREFUSED");
  Refused({"mount"});
  Refused({"escape"});
  Refused({"ptrace"});
  Refused({"kill", std::to_string(getpid())});
}

TEST_F(Sandbox, BlocksOtherPrograms) {
  Refused({"exec", "/bin/sh"});
  Refused({"exec", "/usr/bin/id"});
}

TEST_F(Sandbox, LimitsProcesses) {
  if (!ProbeSandbox().user_namespace) GTEST_SKIP() << "no user namespaces";
  const RunResult result = Run(Attack({"forkbomb"}));
  EXPECT_EQ(result.status.Describe(), "exit status 1") << result.out;
  EXPECT_LT(std::stoi(result.out), 20);
}

TEST_F(Sandbox, LimitsMemoryAndTime) {
  const RunResult memory = Run(Attack({"memory"}));
  EXPECT_EQ(memory.status.Describe(), "exit status 1");
  EXPECT_LT(std::stoi(memory.out), 256);
  EXPECT_EQ(Run(Attack({"loop"})).status.Describe(), "killed by SIGXCPU");
  const RunResult sleep = Run(Attack({"sleep"}), milliseconds(200));
  EXPECT_EQ(sleep.status.Describe(), "killed after 0.2 s");
}

TEST_F(Sandbox, InheritsNoDescriptorsOrEnvironment) {
  const Fd leaked(open("/etc/passwd", O_RDONLY));  // without O_CLOEXEC
  EXPECT_EQ(Refused({"fds"}), "0");
  Refused({"environment"});
  SpawnOptions options = Attack({"fds"});
  options.extra_fds = {leaked.get()};
  EXPECT_EQ(Run(options).out, "1\n");
}

TEST_F(Sandbox, LeavesNoProcessesBehind) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  const Fd read(fds[0]);
  Fd write(fds[1]);
  SpawnOptions options = Attack({"daemon"});
  options.extra_fds = {write.get()};
  EXPECT_EQ(Run(options).status.Describe(), "exit status 0");
  write.Close();
  EXPECT_TRUE(EndsWithin(read.get(), seconds(5)));
  const RunResult core = Run(Attack({"core"}));
  EXPECT_EQ(core.status.Describe(), "killed by SIGABRT");
}

TEST_F(Sandbox, EndsWhenTheSupervisorDies) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  const Fd read(fds[0]);
  Fd write(fds[1]);
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    SpawnOptions options = Attack({"sleep"});
    options.extra_fds = {write.get()};
    auto process = Process::Spawn(options);
    raise(SIGKILL);
  }
  waitpid(supervisor, nullptr, 0);
  write.Close();
  EXPECT_TRUE(EndsWithin(read.get(), seconds(5)));
}

TEST_F(Sandbox, MapsRootToNobody) {
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  if (!ProbeSandbox().user_namespace) GTEST_SKIP() << "no user namespaces";
  EXPECT_EQ(Run(Attack({"uid"})).out, "65534\n");
}

TEST_F(Sandbox, StartsQuickly) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) Run(Attack({"uid"}));
  const auto spent = std::chrono::steady_clock::now() - start;
  EXPECT_LT(spent, seconds(2));
}

class Recorder : public Sandbox {
 protected:
  Recorder() {
    confinement_.syscalls = SyscallProfile::kRecorder;
    confinement_.readable = {CUPEL_TRAPS, shared_, "/lib", "/lib64", "/usr/lib", "/usr/lib64"};
    confinement_.writable.clear();
    confinement_.address_space_bytes = 0;
  }

  RunResult Try(int stage, std::vector<std::string> argv) {
    SpawnOptions options;
    options.argv = {CUPEL_TRAPS, std::to_string(stage)};
    options.argv.insert(options.argv.end(), argv.begin(), argv.end());
    options.confinement = &confinement_;
    return Run(options);
  }

  /// Returns the name of the system call that raised SIGSYS, or how the process ended.
  std::string Trapped(int stage, std::vector<std::string> argv) {
    const RunResult result = Try(stage, std::move(argv));
    if (result.out.rfind("SIGSYS ", 0) != 0) return result.status.Describe() + " " + result.out;
    return SyscallName(std::stoi(result.out.substr(7)));
  }
};

TEST_F(Recorder, RunsHonestCode) {
  EXPECT_EQ(Try(1, {"honest", shared_}).status.Describe(), "exit status 0");
  const RunResult result = Try(2, {"honest", shared_});
  EXPECT_EQ(result.status.Describe(), "exit status 0") << result.out;
  EXPECT_EQ(Try(2, {"abort"}).status.Describe(), "killed by SIGABRT");
}

TEST_F(Recorder, BlocksProcessesThreadsAndSocketsFromTheStart) {
  for (const char* mode : {"fork", "thread", "socket", "kill"}) {
    EXPECT_EQ(Try(1, {mode}).status.Describe(), "exit status 1") << mode;
  }
  EXPECT_EQ(Try(1, {"open", "/etc/passwd"}).status.Describe(), "exit status 1");
  EXPECT_EQ(Try(1, {"create", "/tmp/x"}).status.Describe(), "exit status 1");
}

TEST_F(Recorder, NamesTheBlockedSystemCall) {
  EXPECT_EQ(Trapped(2, {"socket"}), "socket");
  EXPECT_EQ(Trapped(2, {"exec", "/bin/sh"}), "execve");
  EXPECT_EQ(Trapped(2, {"kill"}), "kill");
  EXPECT_EQ(Trapped(2, {"handler"}), "rt_sigaction");
  EXPECT_EQ(Trapped(2, {"create", "/tmp/x"}), "openat");
  EXPECT_EQ(Trapped(3, {"open", "/etc/passwd"}), "openat");
  EXPECT_EQ(Trapped(3, {"patch"}), "mprotect");
  EXPECT_EQ(Trapped(3, {"stop"}), "tgkill");
  EXPECT_EQ(Trapped(3, {"sleep"}), "clock_nanosleep");
  EXPECT_EQ(Try(3, {"abort"}).status.Describe(), "killed by SIGABRT");
  const std::string thread = Trapped(2, {"thread"}), fork = Trapped(2, {"fork"});
  EXPECT_TRUE(thread == "clone3" || thread == "clone") << thread;
  EXPECT_TRUE(fork == "clone3" || fork == "clone") << fork;
}

}  // namespace
}  // namespace cupel::os
