// SPDX-License-Identifier: Apache-2.0
#include "os/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stop_token>
#include <thread>

#include "os/stop.h"

namespace cupel::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SpawnOptions Shell(const std::string& script) {
  SpawnOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.env = {{"PATH", "/usr/bin:/bin"}};
  return options;
}

RunResult MustRun(const SpawnOptions& options, milliseconds deadline = seconds(20),
                  size_t max_output = 1 << 20, std::string_view input = {}) {
  auto result = os::Run(options, deadline, max_output, input);
  EXPECT_TRUE(result) << (result ? "" : result.error().ToString());
  return result ? *result : RunResult{};
}

/// True when no process holds the pipe's write end any more. Child processes inherit it.
bool EndsWithin(int read_end, milliseconds limit) {
  pollfd fd = {read_end, POLLIN, 0};
  char byte;
  return poll(&fd, 1, static_cast<int>(limit.count())) == 1 && read(read_end, &byte, 1) == 0;
}

struct TestPipe {
  Fd read, write;
  TestPipe() {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    read = Fd(fds[0]);
    write = Fd(fds[1]);
  }
};

TEST(Process, ReturnsOutputErrorsAndStatus) {
  const RunResult result = MustRun(Shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_TRUE(result.status.exited);
  EXPECT_EQ(result.status.code, 3);
  EXPECT_EQ(result.status.Describe(), "exit status 3");
}

TEST(Process, NamesTheSignalThatKilledIt) {
  const RunResult result = MustRun(Shell("kill -SEGV $$"));
  EXPECT_FALSE(result.status.exited);
  EXPECT_EQ(result.status.Describe(), "killed by SIGSEGV");
}

TEST(Process, SeesOnlyTheEnvironmentAndDirectoryItIsGiven) {
  setenv("SECRET", "1", 1);
  SpawnOptions options = Shell("echo $SECRET$GIVEN; pwd");
  options.env["GIVEN"] = "yes";
  options.directory = "/usr";
  EXPECT_EQ(MustRun(options).out, "yes\n/usr\n");
}

TEST(Process, FeedsInputLargerThanAPipeAndCapsOutput) {
  const std::string input(3 << 20, 'x');
  EXPECT_TRUE(MustRun(Shell("cat"), seconds(20), 4 << 20, input).out == input);
  const RunResult capped = MustRun(Shell("cat"), seconds(20), 100, input);
  EXPECT_EQ(capped.out.size(), 100u);
  EXPECT_TRUE(capped.out_truncated);
  // SIGPIPE from a child that does not read must not kill this process.
  EXPECT_EQ(MustRun(Shell("exec 0<&-; echo no"), seconds(20), 100, input).out, "no\n");
}

TEST(Process, ReportsMissingProgram) {
  SpawnOptions options;
  options.argv = {"/nonexistent/nvcc"};
  const auto result = os::Run(options, seconds(5));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(result.error().message, "cannot start /nonexistent/nvcc: No such file or directory");
}

TEST(Process, ChildInheritsOnlyTheGivenDescriptors) {
  const TestPipe a, b, hidden;
  SpawnOptions options = Shell("echo a >&3; echo b >&4; ls /proc/self/fd | tr '\\n' ' '");
  options.extra_fds = {a.write.get(), b.write.get()};
  // 5 is ls's own descriptor of the folder.
  EXPECT_EQ(MustRun(options).out, "0 1 2 3 4 5 ");
  char text[3] = {};
  EXPECT_EQ(read(a.read.get(), text, 2), 2);
  EXPECT_STREQ(text, "a\n");
  EXPECT_EQ(read(b.read.get(), text, 2), 2);
  EXPECT_STREQ(text, "b\n");
}

TEST(Process, PlacesDescriptorsWithConflictingNumbers) {
  const TestPipe a, b;
  SpawnOptions options = Shell("echo first >&3; echo second >&4");
  // This process uses the child's descriptor numbers, in the opposite order.
  const Fd four(fcntl(a.write.get(), F_DUPFD_CLOEXEC, 4)),
      five(fcntl(b.write.get(), F_DUPFD_CLOEXEC, 3));
  options.extra_fds = {five.get(), four.get()};
  MustRun(options);
  char text[8] = {};
  EXPECT_EQ(read(b.read.get(), text, 7), 6);
  EXPECT_STREQ(text, "first\n");
}

TEST(Process, KillsAllDescendantsAtTheDeadline) {
  TestPipe test_pipe;
  SpawnOptions options = Shell("setsid sh -c 'sleep 100 & sleep 100' & sleep 100");
  options.extra_fds = {test_pipe.write.get()};
  const RunResult result = MustRun(options, milliseconds(300));
  EXPECT_TRUE(result.status.timed_out);
  EXPECT_EQ(result.status.Describe(), "killed after 0.3 s");
  EXPECT_LT(result.seconds, 5);
  test_pipe.write.Close();
  EXPECT_TRUE(EndsWithin(test_pipe.read.get(), seconds(5)));
}

TEST(Process, KillsDaemonsThatTheChildStarted) {
  TestPipe test_pipe;
  SpawnOptions options = Shell("setsid sh -c 'setsid sleep 100 >&- 2>&- & exit' ; echo done");
  options.extra_fds = {test_pipe.write.get()};
  EXPECT_EQ(MustRun(options).out, "done\n");
  test_pipe.write.Close();
  EXPECT_TRUE(EndsWithin(test_pipe.read.get(), seconds(5)));
}

TEST(Process, DestructorKillsAndReaps) {
  TestPipe test_pipe;
  {
    SpawnOptions options = Shell("sleep 100 & sleep 100");
    options.extra_fds = {test_pipe.write.get()};
    auto process = Process::Spawn(options);
    ASSERT_TRUE(process);
    Process moved = std::move(*process);
    EXPECT_GT(moved.pid(), 0);
  }
  test_pipe.write.Close();
  EXPECT_TRUE(EndsWithin(test_pipe.read.get(), seconds(5)));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Process, OutlivesTheThreadThatStartedItButNotTheProcess) {
  Result<Process> process = Fail(ErrorCode::kInternal, "not run");
  std::thread([&] {
    SpawnOptions options = Shell("sleep 0.3; echo alive");
    options.pipe_stdout = true;
    process = Process::Spawn(options);
  }).join();
  ASSERT_TRUE(process);
  const auto status = process->Wait(seconds(20));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->Describe(), "exit status 0");

  TestPipe test_pipe;
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    SpawnOptions options = Shell("sleep 100");
    options.extra_fds = {test_pipe.write.get()};
    auto child = Process::Spawn(options);
    if (!child) _exit(1);
    kill(getpid(), SIGKILL);
  }
  waitpid(supervisor, nullptr, 0);
  test_pipe.write.Close();
  EXPECT_TRUE(EndsWithin(test_pipe.read.get(), seconds(5)));
}

TEST(Process, TransfersDataInBothDirections) {
  SpawnOptions options = Shell("read a; echo got $a; read b; echo got $b");
  options.pipe_stdin = options.pipe_stdout = true;
  auto process = Process::Spawn(options);
  ASSERT_TRUE(process);
  char buffer[64];
  for (const std::string word : {"one", "two"}) {
    ASSERT_TRUE(WriteAll(process->stdin_pipe().get(), word + "\n", seconds(5)));
    const auto n = ReadSome(process->stdout_pipe().get(), buffer, seconds(5));
    ASSERT_TRUE(n);
    EXPECT_EQ(std::string(buffer, *n), "got " + word + "\n");
  }
  EXPECT_EQ(process->Wait(seconds(5))->Describe(), "exit status 0");
  EXPECT_EQ(*ReadSome(process->stdout_pipe().get(), buffer, seconds(5)), 0u);
}

TEST(Process, ReadAndWriteGiveUpAtTheDeadline) {
  SpawnOptions options = Shell("sleep 100");
  options.pipe_stdin = options.pipe_stdout = true;
  auto process = Process::Spawn(options);
  ASSERT_TRUE(process);
  char buffer[8];
  EXPECT_EQ(ReadSome(process->stdout_pipe().get(), buffer, milliseconds(50)).error().code,
            ErrorCode::kTimeout);
  EXPECT_EQ(WriteAll(process->stdin_pipe().get(), std::string(1 << 20, 'x'), milliseconds(50))
                .error()
                .code,
            ErrorCode::kTimeout);
}

TEST(Process, StopRequestEndsWaitsAtOnce) {
  std::stop_source stop;
  SpawnOptions options = Shell("sleep 100");
  options.stop = stop.get_token();
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(100));
    stop.request_stop();
  });
  const auto start = std::chrono::steady_clock::now();
  const auto result = os::Run(options, seconds(100));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(50));
  EXPECT_EQ(Process::Spawn(options).error().code, ErrorCode::kCancelled);
}

TEST(Process, StopRequestEndsOnlyItsOwnWork) {
  std::stop_source first, second;
  SpawnOptions options = Shell("read line; echo got $line");
  options.pipe_stdin = options.pipe_stdout = true;
  options.stop = first.get_token();
  auto stopped = Process::Spawn(options);
  options.stop = second.get_token();
  auto other = Process::Spawn(options);
  ASSERT_TRUE(stopped && other);
  first.request_stop();
  char buffer[64];
  EXPECT_EQ(
      ReadSome(stopped->stdout_pipe().get(), buffer, seconds(10), first.get_token()).error().code,
      ErrorCode::kCancelled);
  EXPECT_EQ(stopped->Wait(seconds(10)).error().code, ErrorCode::kCancelled);

  ASSERT_TRUE(WriteAll(other->stdin_pipe().get(), "it\n", seconds(10), second.get_token()));
  EXPECT_EQ(other->Wait(seconds(10))->Describe(), "exit status 0");
  const auto n = ReadSome(other->stdout_pipe().get(), buffer, seconds(10), second.get_token());
  ASSERT_TRUE(n);
  EXPECT_EQ(std::string(buffer, *n), "got it\n");
}

TEST(StopFd, IsReadableAfterTheRequest) {
  EXPECT_EQ(StopFd({}).get(), -1);
  std::stop_source stop;
  const StopFd before(stop.get_token());
  pollfd wait{before.get(), POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 0), 0);
  stop.request_stop();
  const StopFd after(stop.get_token());
  pollfd both[2] = {wait, {after.get(), POLLIN, 0}};
  EXPECT_EQ(poll(both, 2, 0), 2);
}

TEST(Process, TerminateLetsTheChildCleanUp) {
  SpawnOptions options =
      Shell("trap 'echo cleaned; exit 3' TERM; echo ready; while :; do sleep 0.05; done");
  options.pipe_stdout = true;
  auto process = Process::Spawn(options);
  ASSERT_TRUE(process);
  char buffer[64];
  ASSERT_TRUE(ReadSome(process->stdout_pipe().get(), buffer, seconds(10)));
  process->Terminate();
  const auto status = process->Wait(seconds(10));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->Describe(), "exit status 3");
  const auto n = ReadSome(process->stdout_pipe().get(), buffer, seconds(10));
  ASSERT_TRUE(n);
  EXPECT_EQ(std::string(buffer, *n), "cleaned\n");
}

TEST(Process, KillWithGraceSendsSigtermFirst) {
  for (const bool obeys : {true, false}) {
    SpawnOptions options = Shell(obeys ? "trap 'echo cleaned; exit 3' TERM; echo ready; "
                                         "while :; do sleep 0.05; done"
                                       : "trap 'echo never' TERM; echo ready; while :; do :; done");
    options.pipe_stdout = true;
    options.grace = milliseconds(500);
    auto process = Process::Spawn(options);
    ASSERT_TRUE(process);
    char buffer[64];
    ASSERT_TRUE(ReadSome(process->stdout_pipe().get(), buffer, seconds(10)));
    const Fd output(fcntl(process->stdout_pipe().get(), F_DUPFD_CLOEXEC, 3));
    process->Kill();
    if (obeys) {
      const auto n = ReadSome(output.get(), buffer, seconds(10));
      ASSERT_TRUE(n);
      EXPECT_EQ(std::string(buffer, *n), "cleaned\n");
    }
    while (ReadSome(output.get(), buffer, seconds(10)).value_or(0) > 0) {
    }
    EXPECT_TRUE(EndsWithin(output.get(), milliseconds(0)));
  }
}

TEST(Process, ManyThreadsStartChildren) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 10; ++i)
        EXPECT_EQ(MustRun(Shell("cat"), seconds(20), 100, "hello").out, "hello");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cupel::os
