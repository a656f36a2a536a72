// SPDX-License-Identifier: Apache-2.0
#include "trace/python_pool.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "oracle/python.h"
#include "os/frames.h"
#include "os/programs.h"
#include "trace/python_paths.h"

namespace cupel::trace {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kStartDeadline{5};
constexpr std::chrono::seconds kAnswerDeadline{60};
constexpr std::string_view kZygote = "zygote.py";

struct SocketPair {
  os::Fd ours, theirs;
};

Result<SocketPair> MakeSocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("socketpair: {}", std::strerror(errno)),
                "raise the limit of open files (ulimit -n)");
  }
  return SocketPair{os::Fd(ends[0]), os::Fd(ends[1])};
}

/// The lock as it is sent to the zygote.
Result<std::string> EncodedLock() {
  TRY_ASSIGN(const auto lock, os::TracerLock());
  return Base64Encode({reinterpret_cast<const char*>(lock.data()), lock.size()});
}

/// The next message of a trusted process. Errors: kIo if it ended or sends something else.
Result<Json> Receive(int channel, Clock::time_point deadline, const std::stop_token& stop = {}) {
  os::FrameEnd end{};
  TRY_ASSIGN(const auto frame, os::ReadFrame(channel, deadline, &end, stop));
  if (!frame) {
    return Fail(ErrorCode::kIo,
                end == os::FrameEnd::kTimeout ? "no answer from zygote.py" : "zygote.py has ended");
  }
  TRY_ASSIGN(Json json, ParseJson(*frame, kZygote));
  if (!json.is_object()) return Fail(ErrorCode::kIo, "zygote.py sent no object");
  return json;
}

std::map<std::string, std::string> ZygoteEnvironment() {
  std::map<std::string, std::string> environment = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                                                    {"HOME", "/nonexistent"},
                                                    {"USER", "user"},
                                                    {"LANG", "C.UTF-8"},
                                                    // Any folder that exists: it is not used.
                                                    {"TORCHINDUCTOR_CACHE_DIR", "/"}};
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    environment[name] = "1";
  }
  // Some interpreters do not start without these.
  for (const char* name : {"LD_LIBRARY_PATH", "PYTHONHOME"}) {
    if (std::string value = os::Variable(name); !value.empty()) environment[name] = value;
  }
  return environment;
}

/// The last line of the output of a process that has ended.
std::string LastLine(const os::Fd& output) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const auto got = os::ReadSome(output.get(), buffer, std::chrono::seconds(1));
    if (!got || *got == 0) break;
    text.append(buffer, *got);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1).substr(0, 500);
}

}  // namespace

PythonChild::PythonChild(PythonChild&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      start_(other.start_),
      pid_(other.pid_),
      channel_(std::move(other.channel_)),
      how_it_ended_(std::move(other.how_it_ended_)) {}

PythonChild& PythonChild::operator=(PythonChild&& other) noexcept {
  if (this != &other) {
    Kill();
    pool_ = std::exchange(other.pool_, nullptr);
    start_ = other.start_;
    pid_ = other.pid_;
    channel_ = std::move(other.channel_);
    how_it_ended_ = std::move(other.how_it_ended_);
  }
  return *this;
}

void PythonChild::Kill() {
  if (pool_ == nullptr) return;
  how_it_ended_ = std::exchange(pool_, nullptr)->End(start_, pid_);
}

std::string PythonChild::HowItEnded() {
  Kill();
  return how_it_ended_;
}

PythonPool::PythonPool(PoolOptions options) : options_(std::move(options)) {}
PythonPool::~PythonPool() = default;

Status PythonPool::Start(const std::stop_token& stop) {
  const auto in_cache = [&](const char* file) {
    return options_.cache.empty() ? fs::path() : options_.cache / file;
  };
  TRY_ASSIGN(const auto python,
             oracle::FindPython(options_.python, in_cache("pythons.json"), stop));
  TRY_ASSIGN(const auto paths, FindPythonPaths(python, in_cache("python_paths.json"), stop));
  TRY_ASSIGN(SocketPair control, MakeSocketPair());
  os::Confinement confinement;
  confinement.syscalls = os::SyscallProfile::kTracer;
  confinement.readable = {options_.zygote, options_.tracer, "/usr/lib",
                          "/lib",          "/lib64",        "/etc/ld.so.cache"};
  for (const fs::path& path : os::FoldersOf(os::Variable("LD_LIBRARY_PATH"))) {
    confinement.readable.push_back(path);
  }
  confinement.readable.insert(confinement.readable.end(), paths.readable.begin(),
                              paths.readable.end());
  confinement.file_bytes = 1;
  confinement.allow_weak = options_.allow_weak_sandbox;
  os::SpawnOptions spawn;
  // -s: the user's own packages come with the import path.
  spawn.argv = {python.program, "-s", "-B", options_.zygote.string(), options_.tracer.string()};
  spawn.argv.insert(spawn.argv.end(), paths.import_path.begin(), paths.import_path.end());
  spawn.env = ZygoteEnvironment();
  spawn.confinement = &confinement;
  spawn.pipe_stderr = true;
  spawn.extra_fds = {control.theirs.get()};
  TRY_ASSIGN(auto process, os::Process::Spawn(spawn));
  control.theirs.Close();
  sandbox_ = process.sandbox();
  ++starts_;
  zygote_.emplace(Zygote{std::move(process), std::move(control.ours)});
  auto ready = AwaitReady(python.program, stop);
  if (!ready) zygote_.reset();
  return ready;
}

Status PythonPool::AwaitReady(const std::string& python, const std::stop_token& stop) {
  const auto hello = Receive(zygote_->control.get(), Clock::now() + kStartDeadline, stop);
  if (!hello && hello.error().code == ErrorCode::kCancelled) {
    return tl::unexpected<Error>(hello.error());
  }
  std::string why;
  if (!hello) {
    const auto status = zygote_->process.Wait(std::chrono::seconds(1));
    why = fmt::format("{}: {}", status ? status->Describe() : status.error().message,
                      LastLine(zygote_->process.stderr_pipe()));
  } else if (hello->contains("failure")) {
    TRY_ASSIGN(why, JsonString(*hello, "failure", kZygote));
  }
  if (why.empty()) return {};
  return Fail(
      ErrorCode::kEnvironment,
      fmt::format("PyTorch did not start under {} in the sandbox: {}", python, why),
      fmt::format("try: {} -c 'import torch'; cupel doctor shows what the sandbox needs", python));
}

Result<Json> PythonPool::Ask(const Json& request, int passed) {
  const auto deadline = Clock::now() + kAnswerDeadline;
  const auto ask = [&]() -> Result<Json> {
    TRY(os::WriteFrame(zygote_->control.get(), DumpJson(request), deadline, {}, passed));
    return Receive(zygote_->control.get(), deadline);
  };
  auto answer = ask();
  if (!answer) zygote_.reset();
  return answer;
}

Result<PythonChild> PythonPool::Fork(const ChildLimits& limits, const std::stop_token& stop) {
  if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "cancelled");
  static const Result<std::string> lock = EncodedLock();
  if (!lock) return tl::unexpected<Error>(lock.error());
  TRY_ASSIGN(SocketPair channel, MakeSocketPair());
  const Json request = {{"op", "fork"},
                        {"lock", *lock},
                        {"cpu_seconds", limits.cpu_seconds},
                        {"data_bytes", limits.data_bytes}};
  std::unique_lock guard(mutex_);
  const bool was_running = zygote_.has_value();
  if (!was_running) TRY(Start(stop));
  auto answer = Ask(request, channel.theirs.get());
  if (!answer && was_running) {  // it has died since the last call
    TRY(Start(stop));
    answer = Ask(request, channel.theirs.get());
  }
  if (!answer) return tl::unexpected<Error>(answer.error());
  if (answer->contains("failure")) {
    return Fail(ErrorCode::kIo, fmt::format("cannot fork Python: {}", (*answer)["failure"].dump()),
                "raise the limit of processes (ulimit -u) or free memory");
  }
  TRY_ASSIGN(const int64_t pid, JsonInt(*answer, "pid", kZygote));
  PythonChild child(this, starts_, pid, std::move(channel.ours));
  guard.unlock();
  channel.theirs.Close();
  // Still trusted: the candidate's code has not been sent.
  TRY_ASSIGN(const Json locked, Receive(child.channel(), Clock::now() + kAnswerDeadline));
  if (!locked.contains("locked")) {
    return Fail(ErrorCode::kEnvironment, fmt::format("Python: {}", DumpJson(locked)),
                "run cupel on a system that allows system call filters (seccomp)");
  }
  return child;
}

std::string PythonPool::End(int start, int64_t pid) {
  constexpr char kTogether[] = "ended with the process that had forked it";
  const std::lock_guard guard(mutex_);
  if (!zygote_ || start != starts_) return kTogether;
  const auto answer = Ask({{"op", "end"}, {"pid", pid}}, -1);
  if (!answer) return kTogether;
  os::ExitStatus status;
  if (const auto code = JsonInt(*answer, "exited", kZygote)) {
    status.exited = true;
    status.code = static_cast<int>(*code);
  } else if (const auto signal = JsonInt(*answer, "signal", kZygote)) {
    status.signal = static_cast<int>(*signal);
  }
  return status.Describe();
}

os::SandboxReport PythonPool::sandbox() const {
  const std::lock_guard guard(mutex_);
  return sandbox_;
}

int PythonPool::starts() const {
  const std::lock_guard guard(mutex_);
  return starts_;
}

}  // namespace cupel::trace
