// SPDX-License-Identifier: Apache-2.0
#include "oracle/torch_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "oracle/environment.h"
#include "oracle/python.h"
#include "os/stop.h"
#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxLine = 16u << 20;
constexpr size_t kMaxErrorText = 16u << 10;
constexpr char kSharedMemory[] = "/dev/shm";
constexpr std::chrono::seconds kSilence{5};  // then report that the child is still computing

}  // namespace

TorchChild::TorchChild(ChildOptions options) : options_(std::move(options)), lines_(kMaxLine) {}

Status TorchChild::CreateFolders() {
  for (const fs::path& parent : {fs::path(kSharedMemory), fs::path()}) {
    auto folder = os::TempDir::Create(parent);
    if (!folder && parent.empty() && folders_.empty()) return tl::unexpected<Error>(folder.error());
    if (!folder) continue;  // without shared memory, use ordinary files
    os::SweepTempDirs(folder->path().parent_path());
    folders_.push_back(std::move(*folder));
  }
  return {};
}

Result<std::unique_ptr<TorchChild>> TorchChild::Start(ChildOptions options) {
  std::unique_ptr<TorchChild> child(new TorchChild(std::move(options)));
  TRY(child->CreateFolders());
  os::SpawnOptions spawn;
  spawn.argv = {child->options_.python, child->options_.script.string()};
  for (const os::TempDir& folder : child->folders_) spawn.argv.push_back(folder.path().string());
  spawn.env = ChildEnvironment(child->options_.threads);
  spawn.pipe_stdin = spawn.pipe_stdout = spawn.pipe_stderr = true;
  spawn.stop = child->options_.stop;
  TRY_ASSIGN(os::Process process, os::Process::Spawn(spawn));
  child->process_.emplace(std::move(process));
  child->alive_ = true;
  TRY(child->AwaitHello());
  return child;
}

TorchChild::~TorchChild() {
  if (process_) process_->Kill();
}

Status TorchChild::AwaitHello() {
  const auto deadline = Clock::now() + options_.deadline;
  while (!hello_) {
    if (!alive_) {
      return Fail(ErrorCode::kEnvironment,
                  fmt::format("PyTorch did not start under {}: {}", options_.python, ExitReason()),
                  "try: " + options_.python + " -c 'import torch'");
    }
    if (Clock::now() > deadline) {
      return Fail(ErrorCode::kTimeout,
                  fmt::format("PyTorch did not start under {} within {} s", options_.python,
                              options_.deadline.count()),
                  "try: " + options_.python + " -c 'import torch'");
    }
    TRY(PumpOnce(milliseconds(200)));
  }
  if (hello_->contains("failure")) {
    TRY_ASSIGN(const std::string why, JsonString(*hello_, "failure", "hello"));
    return Fail(ErrorCode::kEnvironment,
                fmt::format("PyTorch could not be loaded by {}: {}", options_.python, why),
                kTorchRemedy);
  }
  return {};
}

Status TorchChild::Send(const Json& request) {
  const std::string line = DumpJson(request) + "\n";
  auto sent = os::WriteAll(process_->stdin_pipe().get(), line, milliseconds(60'000), options_.stop);
  if (!sent && sent.error().code == ErrorCode::kCancelled) return sent;
  if (!sent) alive_ = false;
  return {};
}

Result<TorchChild::Pump> TorchChild::PumpOnce(milliseconds patience) {
  const os::StopFd stop(options_.stop);
  pollfd fds[3] = {{process_->stdout_pipe().get(), POLLIN, 0},
                   {process_->stderr_pipe().get(), POLLIN, 0},
                   {stop.get(), POLLIN, 0}};
  // poll ignores negative descriptors, which are closed ones.
  const int ready = ::poll(fds, 3, static_cast<int>(patience.count()));
  if (options_.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "stopped");
  if (ready <= 0) return Pump::kTimeout;
  char buffer[65536];
  if (fds[1].revents != 0) {
    const ssize_t got = ::read(fds[1].fd, buffer, sizeof buffer);
    if (got > 0) {
      error_text_.append(buffer, static_cast<size_t>(got));
      if (error_text_.size() > 2 * kMaxErrorText) {
        error_text_.erase(0, error_text_.size() - kMaxErrorText);
      }
    } else {
      process_->stderr_pipe().Close();
    }
  }
  if (fds[0].revents != 0) {
    const ssize_t got = ::read(fds[0].fd, buffer, sizeof buffer);
    if (got > 0) {
      lines_.Feed({buffer, static_cast<size_t>(got)});
      TakeLines();
    } else {
      process_->stdout_pipe().Close();
      alive_ = false;
    }
  }
  return alive_ ? Pump::kProgress : Pump::kDead;
}

void TorchChild::TakeLines() {
  for (;;) {
    const auto line = lines_.Next();
    if (!line) {
      protocol_error_ = "it sent a line that is too long";
      alive_ = false;
      return;
    }
    if (!*line) return;
    auto message = ParseJson(**line, "oracle.py");
    if (!message || !message->is_object()) {
      protocol_error_ = "it sent invalid JSON";
      alive_ = false;
      return;
    }
    if (message->contains("hello")) {
      hello_ = std::move(*message);
    } else if (message->contains("progress")) {
      auto text = JsonString(*message, "progress", "oracle.py");
      if (text && options_.progress) options_.progress(*text);
    } else if (auto id = JsonInt(*message, "id", "oracle.py")) {
      replies_[*id] = std::move(*message);
    }
  }
}

Result<std::optional<Json>> TorchChild::Receive(int64_t id) {
  auto heard = Clock::now();
  auto next_notice = heard + kSilence;
  while (true) {
    if (auto reply = replies_.extract(id)) return std::optional<Json>(std::move(reply.mapped()));
    if (!alive_) return std::optional<Json>();
    TRY_ASSIGN(const Pump pump, PumpOnce(milliseconds(200)));
    const auto now = Clock::now();
    if (pump == Pump::kProgress) {
      heard = now;
      next_notice = heard + kSilence;
    } else if (now > next_notice) {
      const auto silent = std::chrono::duration_cast<std::chrono::seconds>(now - heard);
      if (options_.progress) {
        options_.progress(fmt::format("PyTorch has computed one step for {} s (limit: {} s)",
                                      silent.count(), options_.deadline.count()));
      }
      next_notice = now + kSilence;
    }
    if (now > heard + options_.deadline) {
      process_->Kill();
      alive_ = false;
      return Fail(
          ErrorCode::kTimeout,
          fmt::format("the task's reference made no progress for {} s", options_.deadline.count()),
          "check the reference for an endless loop, or give a large setting more time "
          "with CUPEL_ORACLE_SECONDS");
    }
  }
}

Result<std::optional<Json>> TorchChild::ReceiveSoon(int64_t id, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (true) {
    if (auto reply = replies_.extract(id)) return std::optional<Json>(std::move(reply.mapped()));
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (!alive_ || left.count() <= 0) return std::optional<Json>();
    TRY(PumpOnce(left));
  }
}

std::string TorchChild::ExitReason() {
  alive_ = false;
  std::string text = protocol_error_;
  if (text.empty()) {
    const auto status = process_->Wait(milliseconds(2000));
    text = status ? status->Describe() : status.error().message;
    gpu_failed_ = status && status->exited && status->code == kGpuFailed;
    was_killed_ = status && !status->exited && status->signal == SIGKILL;
    if (was_killed_) text += " (out of memory? try a setting with smaller sizes)";
  }
  // The last line that is not empty.
  std::string_view rest = error_text_;
  while (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
  const size_t start = rest.rfind('\n');
  const std::string_view line = start == std::string_view::npos ? rest : rest.substr(start + 1);
  if (!line.empty()) text += fmt::format(": {}", line.substr(0, 500));
  return text;
}

}  // namespace cupel::oracle
