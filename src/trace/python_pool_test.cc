// Tests the pool with this machine's PyTorch, and attacks from locked processes. Reported as
// skipped if there is no PyTorch.
// SPDX-License-Identifier: Apache-2.0
#include "trace/python_pool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "oracle/python.h"
#include "os/frames.h"
#include "os/temp_dir.h"

namespace cupel::trace {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

/// The processor time that attacks and answers take is far below this.
constexpr seconds kDeadline{60};

/// The answer of the stand-in for the tracer to one request; null if the process has ended or the
/// deadline passed.
Json Request(const PythonChild& child, const Json& request, milliseconds patience = kDeadline) {
  const auto deadline = Clock::now() + patience;
  if (!os::WriteFrame(child.channel(), DumpJson(request), deadline)) return nullptr;
  os::FrameEnd end{};
  const auto frame = os::ReadFrame(child.channel(), deadline, &end);
  if (!frame || !*frame) return nullptr;
  auto json = ParseJson(**frame, "answer");
  return json ? *json : Json();
}

Json Execute(const PythonChild& child, const std::string& code, milliseconds patience = kDeadline) {
  return Request(child, {{"op", "exec"}, {"code", code}}, patience);
}

class PythonPoolTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { cache_.emplace(*os::TempDir::Create()); }
  static void TearDownTestSuite() {
    shared_.reset();
    cache_.reset();
  }
  void SetUp() override {
    const auto python = oracle::FindPython("", cache_->path() / "pythons.json");
    if (!python) GTEST_SKIP() << python.error().ToString();
    std::ofstream(secret_.path() / "secret") << "secret\n";
  }

  static PoolOptions Options() {
    PoolOptions options;
    options.zygote = fs::path(CUPEL_SOURCE_DIR) / "src/trace/py/zygote.py";
    options.tracer = fs::path(CUPEL_SOURCE_DIR) / "src/trace/testdata";
    options.cache = cache_->path();
    return options;
  }
  /// One pool for the tests that leave it as it is: PyTorch takes seconds to start.
  static PythonPool& Shared() {
    if (!shared_) shared_ = std::make_unique<PythonPool>(Options());
    return *shared_;
  }

  static inline std::optional<os::TempDir> cache_;
  static inline std::unique_ptr<PythonPool> shared_;
  os::TempDir secret_ = *os::TempDir::Create();
};

PythonChild MustFork(PythonPool& pool, const ChildLimits& limits = {}) {
  auto child = pool.Fork(limits);
  if (!child) throw std::runtime_error(child.error().ToString());  // ends the test
  return std::move(*child);
}

struct Attack {
  const char* name;
  const char* code;
  const char* raises;
};

/// For attacks with the C library's functions.
constexpr char kCall[] = R"py(
import ctypes, os
def call(name, *arguments):
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_long
    if function(*map(ctypes.c_long, arguments)) & 0xffffffff == 0xffffffff:  # int or long
        raise OSError(ctypes.get_errno(), name)
def page():
    call_mmap = ctypes.CDLL(None).mmap
    call_mmap.restype = ctypes.c_long
    return call_mmap(None, ctypes.c_long(4096), 3, 0x22, -1, ctypes.c_long(0))
)py";

/// What the lock refuses, whatever the rest of the sandbox protects.
constexpr Attack kRefusedByTheLock[] = {
    {"new file", "open('/tmp/new', 'w')", "PermissionError"},
    {"new module", "open(os.__file__ + '.new', 'x')", "PermissionError"},
    {"append", "open(os.__file__, 'a')", "PermissionError"},
    {"write and read", "os.open('/dev/null', os.O_RDWR)", "PermissionError"},
    {"temporary file", "os.open('/usr/lib', os.O_TMPFILE | os.O_WRONLY)", "PermissionError"},
    {"folder", "os.mkdir('/new')", "PermissionError"},
    {"remove", "os.unlink(os.__file__)", "PermissionError"},
    {"rename", "os.rename(os.__file__, '/x')", "PermissionError"},
    {"mode", "os.chmod(os.__file__, 0o777)", "PermissionError"},
    {"truncate", "os.truncate(os.__file__, 0)", "PermissionError"},
    {"FIFO", "os.mkfifo('/x')", "PermissionError"},
    {"pipe", "os.pipe()", "PermissionError"},
    {"fork", "os.fork()", "PermissionError"},
    {"vfork", "call('vfork')", "PermissionError"},
    {"clone", "call('syscall', 56, 0x4111, 0, 0, 0, 0)", "PermissionError"},
    {"clone3", "call('syscall', 435, page(), 88)", "PermissionError"},
    {"thread", "import threading; threading.Thread(target=print).start()", "RuntimeError"},
    {"exec", "os.execv('/usr/bin/env', ['env'])", "PermissionError"},
    {"spawn", "os.posix_spawn('/usr/bin/env', ['env'], {})", "PermissionError"},
    {"subprocess", "import subprocess; subprocess.run(['/usr/bin/env'])", "PermissionError"},
    {"shell", "result = os.popen('id').read()", "PermissionError"},
    {"socket", "import socket; socket.socket()", "PermissionError"},
    {"UNIX socket", "import socket; socket.socket(socket.AF_UNIX)", "PermissionError"},
    {"socket pair", "import socket; socket.socketpair()", "PermissionError"},
    {"descriptor from the channel",
     "import socket; socket.socket(socket.AF_UNIX, fileno=3).recvmsg(1, 64)", "PermissionError"},
    {"memory file", "os.memfd_create('x')", "PermissionError"},
    {"memory that no limit counts", "import mmap; mmap.mmap(-1, 4096)", "PermissionError"},
    {"executable memory", "import mmap; mmap.mmap(-1, 4096, flags=0x22, prot=7)",
     "PermissionError"},
    {"executable private memory", "call('mmap', 0, 4096, 5, 0x22, -1, 0)", "PermissionError"},
    {"writable and executable file",
     "call('mmap', 0, 4096, 7, 2, os.open(os.__file__, os.O_RDONLY), 0)", "PermissionError"},
    {"memory made executable", "call('mprotect', page(), 4096, 5)", "PermissionError"},
    {"memory made executable with a key", "call('pkey_mprotect', page(), 4096, 5, -1)",
     "PermissionError"},
    {"executable stack", "call('personality', 0x400000)", "PermissionError"},
    {"kill init", "os.kill(1, 9)", "PermissionError"},
    {"kill the parent", "os.kill(os.getppid(), 9)", "PermissionError"},
    {"stop itself", "os.kill(os.getpid(), 19)", "PermissionError"},
    {"kill all", "os.kill(-1, 9)", "PermissionError"},
    {"tgkill", "call('tgkill', os.getppid(), os.getppid(), 9)", "PermissionError"},
    {"pidfd", "os.pidfd_open(os.getppid())", "PermissionError"},
    {"queued signal", "call('sigqueue', os.getppid(), 9, 0)", "PermissionError"},
    {"signal by descriptor", "import fcntl; fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid())",
     "PermissionError"},
    {"signal by ioctl", "import fcntl; fcntl.ioctl(3, 0x8901, (1).to_bytes(4, 'little'))",
     "PermissionError"},
    {"timer", "import signal; signal.setitimer(signal.ITIMER_REAL, 1)", "itimer_error"},
    {"handler", "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)", "PermissionError"},
    {"prctl", "call('prctl', 15, 0, 0, 0, 0)", "PermissionError"},
    {"second filter", "call('prctl', 22, 2, page(), 0, 0)", "PermissionError"},
    {"ptrace", "call('ptrace', 16, os.getppid(), 0, 0)", "PermissionError"},
    {"read the parent's memory", "call('process_vm_readv', os.getppid(), page(), 1, page(), 1, 0)",
     "PermissionError"},
    {"write the parent's memory",
     "call('process_vm_writev', os.getppid(), page(), 1, page(), 1, 0)", "PermissionError"},
    {"raise limits", "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))",
     "ValueError"},
    {"limit the parent",
     "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
     "PermissionError"},
    {"priority of the parent", "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
     "PermissionError"},
    {"processors of the parent", "os.sched_setaffinity(os.getppid(), {0})", "PermissionError"},
    {"shared memory", "call('shmget', 0, 4096, 0o1600)", "PermissionError"},
    {"namespace", "call('unshare', 0x10000000)", "PermissionError"},
    {"mount", "call('mount', page(), page(), page(), 0, 0)", "PermissionError"},
    {"io_uring", "call('syscall', 425, 8, page())", "PermissionError"},
    {"chdir", "os.chdir('/')", "PermissionError"},
};

/// What the view of files hides. The text {secret} stands for a folder outside it.
constexpr Attack kRefusedByTheView[] = {
    {"users", "open('/etc/passwd')", "FileNotFoundError"},
    {"memory map", "open('/proc/self/maps')", "FileNotFoundError"},
    {"memory of the parent", "open('/proc/%d/mem' % os.getppid())", "FileNotFoundError"},
    {"devices", "open('/dev/zero')", "FileNotFoundError"},
    {"temporary files", "os.listdir('/dev/shm')", "FileNotFoundError"},
    {"folder", "os.listdir('{secret}')", "FileNotFoundError"},
    {"file", "open('{secret}/secret')", "FileNotFoundError"},
};

/// What honest code needs, and what it results in.
constexpr std::pair<const char*, const char*> kAllowed[] = {
    {"import colorsys; result = colorsys.rgb_to_hsv(0, 0, 0)", "(0.0, 0.0, 0)"},
    {"import xml.etree.ElementTree as tree; result = tree.fromstring('<a/>').tag", "a"},
    {"import torch; result = torch.ones(3).sum().item()", "3.0"},
    {"import torch\n"
     "from torch._subclasses.fake_tensor import FakeTensorMode\n"
     "with FakeTensorMode(): result = (torch.empty(4, 5) @ torch.empty(5, 6)).shape",
     "torch.Size([4, 6])"},
    {"import inspect, torch; result = 'def forward' in inspect.getsource(torch.nn.Linear)", "True"},
    {"import mmap, os\n"
     "with open(os.__file__) as file:\n"
     "  result = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ).find(b'import') > 0",
     "True"},
    {"import random; result = 0 <= random.SystemRandom().random() < 1", "True"},
    {"import time; time.sleep(0.001); result = time.time() > 0", "True"},
    {"result = len(bytearray(200_000_000))", "200000000"},
    {"import os; result = os.environ.get('CUPEL_CACHE')", "None"},
};

/// The attacks that did not fail as they should.
std::vector<std::string> Successes(const PythonChild& child, std::span<const Attack> attacks,
                                   const std::string& secret) {
  std::vector<std::string> successes;
  for (const Attack& attack : attacks) {
    std::string code = attack.code;
    if (const size_t at = code.find("{secret}"); at != std::string::npos) {
      code.replace(at, std::strlen("{secret}"), secret);
    }
    const Json answer = Execute(child, kCall + code);
    const Json expected = attack.raises;
    if (!answer.is_object() || answer.value("raised", Json()) != expected) {
      successes.push_back(fmt::format("{}: {}", attack.name, DumpJson(answer)));
    }
  }
  return successes;
}

TEST_F(PythonPoolTest, StartsPyTorchOnceForManyProcesses) {
  PythonPool pool(Options());
  EXPECT_EQ(pool.starts(), 0);
  PythonChild first = MustFork(pool);
  PythonChild second = MustFork(pool);
  EXPECT_EQ(Request(first, {{"op", "echo"}, {"x", 1}})["x"], 1);
  EXPECT_EQ(Request(second, {{"op", "echo"}, {"x", 2}})["x"], 2);
  for (const auto& [code, result] : kAllowed) {
    EXPECT_EQ(Execute(first, code)["result"], result) << code;
  }

  // Processes do not see each other's state, and the end of one does not affect others.
  Execute(first, "import torch; torch.kept = 1");
  EXPECT_EQ(Execute(second, "import torch; torch.kept")["raised"], "AttributeError");
  first.Kill();
  EXPECT_EQ(first.HowItEnded(), "killed by SIGKILL");
  EXPECT_EQ(Execute(second, "result = 2")["result"], "2");

  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const PythonChild child = MustFork(pool);
        EXPECT_EQ(Execute(child, "result = 3")["result"], "3");
      }
    });
  }
  threads.clear();
  EXPECT_EQ(pool.starts(), 1);
  EXPECT_TRUE(pool.sandbox().seccomp);
}

TEST_F(PythonPoolTest, SaysHowAProcessEnded) {
  PythonPool& pool = Shared();
  const std::pair<const char*, const char*> ends[] = {
      {"import os; os._exit(7)", "exit status 7"},
      {"import os; os.abort()", "killed by SIGSEGV"},
      {"import ctypes; ctypes.string_at(1)", "killed by SIGSEGV"},
      {"while True: pass", "killed by SIGXCPU"},
      {"import os; os.close(3); [None for _ in iter(int, 1)]", "killed by SIGKILL"},
  };
  for (const auto& [code, how] : ends) {
    PythonChild child = MustFork(pool, {.cpu_seconds = 1});
    EXPECT_EQ(Execute(child, code), nullptr) << code;
    EXPECT_EQ(child.HowItEnded(), how) << code;
  }
  PythonChild sleeping = MustFork(pool, {.cpu_seconds = 1});
  EXPECT_EQ(Execute(sleeping, "import time; time.sleep(1000)", milliseconds(100)), nullptr);
  EXPECT_EQ(sleeping.HowItEnded(), "killed by SIGKILL");

  PythonChild large = MustFork(pool, {.data_bytes = uint64_t{2} << 30});
  EXPECT_EQ(Execute(large, "bytearray(3 << 30)")["raised"], "MemoryError");
  EXPECT_THAT(Execute(large, "import torch; torch.empty(1 << 30)")["text"].get<std::string>(),
              HasSubstr("memory"));

  PythonChild done = MustFork(pool);
  shutdown(done.channel(), SHUT_WR);
  os::FrameEnd end{};
  EXPECT_FALSE(*os::ReadFrame(done.channel(), Clock::now() + kDeadline, &end));
  EXPECT_EQ(done.HowItEnded(), "exit status 0");
  EXPECT_EQ(pool.starts(), 1);
}

TEST_F(PythonPoolTest, RefusesAttacks) {
  PythonPool& pool = Shared();
  const PythonChild child = MustFork(pool);
  const std::string secret = secret_.path().string();
  EXPECT_THAT(Successes(child, kRefusedByTheLock, secret), testing::IsEmpty());
  if (pool.sandbox().mount_namespace) {
    EXPECT_THAT(Successes(child, kRefusedByTheView, secret), testing::IsEmpty());
  }
  EXPECT_EQ(pool.starts(), 1);
}

TEST_F(PythonPoolTest, GivesAProcessOnlyItsChannel) {
  PythonPool& pool = Shared();
  const PythonChild child = MustFork(pool);
  const PythonChild other = MustFork(pool);
  const Json open = Execute(other, R"py(
import contextlib, os, stat
result = []
for descriptor in range(1024):
    with contextlib.suppress(OSError):
        result.append((descriptor, stat.S_ISSOCK(os.fstat(descriptor).st_mode)))
)py");
  EXPECT_EQ(open["result"], "[(0, False), (1, False), (2, False), (3, True)]");
}

TEST_F(PythonPoolTest, StartsAgainWhenTheForkingProcessHasDied) {
  shared_.reset();  // the pool's supervisor must be the only child of this process
  PythonPool pool(Options());
  PythonChild child = MustFork(pool);
  // The only child of this process supervises the others, which end with it.
  const fs::path children = fmt::format("/proc/self/task/{}/children", gettid());
  std::ifstream list(children);
  pid_t supervisor = 0;
  if (!(list >> supervisor)) GTEST_SKIP() << "this kernel does not list children";
  ASSERT_EQ(kill(supervisor, SIGKILL), 0);
  // The kernel ends them one after the other.
  Json answer = Execute(child, "result = 1");
  for (int i = 0; i < 1000 && !answer.is_null(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    answer = Execute(child, "result = 1");
  }
  EXPECT_EQ(answer, nullptr);
  PythonChild again = MustFork(pool);
  EXPECT_EQ(Execute(again, "result = 1")["result"], "1");
  EXPECT_EQ(pool.starts(), 2);
  EXPECT_EQ(child.HowItEnded(), "ended with the process that had forked it");
}

TEST_F(PythonPoolTest, ReportsWhatDoesNotStart) {
  PoolOptions options = Options();
  options.tracer = secret_.path();
  const auto without_tracer = PythonPool(options).Fork({});
  ASSERT_FALSE(without_tracer);
  EXPECT_THAT(without_tracer.error().message, HasSubstr("No module named 'tracer'"));

  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(PythonPool(Options()).Fork({}, stop.get_token()).error().code, ErrorCode::kCancelled);
}

/// Makes the kernel lack namespaces for this process.
void DisableNamespaces() {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  for (const uint64_t flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET}) {
    seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                     SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
  }
  if (seccomp_load(filter) != 0) _exit(99);
  seccomp_release(filter);
}

TEST_F(PythonPoolTest, LocksProcessesWithoutNamespaces) {
  const auto body = [&] {
    DisableNamespaces();
    const bool landlock = os::ProbeSandbox().IsEnough();
    PoolOptions options = Options();
    if (!landlock) {
      const auto refused = PythonPool(options).Fork({});
      if (refused || refused.error().code != ErrorCode::kEnvironment) _exit(2);
    }
    options.allow_weak_sandbox = true;
    PythonPool pool(options);
    const auto child = pool.Fork({});
    if (!child || pool.sandbox().mount_namespace || pool.sandbox().missing.empty()) _exit(3);
    const auto successes = Successes(*child, kRefusedByTheLock, "");
    std::fprintf(stderr, "%s\n", fmt::format("{}", fmt::join(successes, "\n")).c_str());
    _exit(successes.empty() ? 0 : 1);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cupel::trace
