// Run(): runs a child to its end and transfers its input and output.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "os/process.h"
#include "os/sandbox.h"
#include "os/sigpipe.h"
#include "os/stop.h"

namespace cupel::os {
namespace {

using Clock = std::chrono::steady_clock;

int MillisecondsUntil(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

/// Reads the available bytes. Bytes past `max_bytes` are dropped, so that the child does not block.
void Collect(Fd& pipe, size_t max_bytes, std::string& text, bool& truncated) {
  char buffer[65536];
  const ssize_t n = read(pipe.get(), buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) {
    pipe.Close();
    return;
  }
  const size_t take = std::min(static_cast<size_t>(n), max_bytes - text.size());
  text.append(buffer, take);
  truncated = truncated || take < static_cast<size_t>(n);
}

void Feed(Fd& pipe, std::string_view& input) {
  const ssize_t n = write(pipe.get(), input.data(), input.size());
  if (n > 0) input.remove_prefix(static_cast<size_t>(n));
  const bool broken = n < 0 && errno != EINTR && errno != EAGAIN;
  if (broken || input.empty()) pipe.Close();
}

/// Transfers input and output until the outputs end, the time is up or a stop is requested.
Status Transfer(Process& process, Clock::time_point end, size_t max_output, std::string_view input,
                const std::stop_token& stop,
                const std::function<void(std::string_view)>& on_error_output, RunResult& result) {
  const StopFd stop_fd(stop);
  Fd &in = process.stdin_pipe(), &out = process.stdout_pipe(), &err = process.stderr_pipe();
  if (in) fcntl(in.get(), F_SETFL, O_NONBLOCK);
  if (in && input.empty()) in.Close();
  while (out || err) {
    if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "cancelled");
    pollfd fds[4] = {{in.get(), POLLOUT, 0},
                     {out.get(), POLLIN, 0},
                     {err.get(), POLLIN, 0},
                     {stop_fd.get(), POLLIN, 0}};
    const int n = poll(fds, 4, stop_fd.Limit(MillisecondsUntil(end)));
    if (n < 0 && errno != EINTR) {
      return Fail(ErrorCode::kIo, fmt::format("cannot wait for a child: {}", std::strerror(errno)));
    }
    if (n == 0 && Clock::now() >= end) return {};
    if (n == 0) continue;
    if (n < 0) continue;
    if (fds[0].revents != 0) Feed(in, input);
    if (fds[1].revents != 0) Collect(out, max_output, result.out, result.out_truncated);
    if (fds[2].revents == 0) continue;
    const size_t size_before = result.err.size();
    Collect(err, max_output, result.err, result.err_truncated);
    if (on_error_output && result.err.size() > size_before) {
      on_error_output(std::string_view{result.err}.substr(size_before));
    }
  }
  return {};
}

}  // namespace

Result<RunResult> Run(SpawnOptions options, std::chrono::milliseconds deadline, size_t max_output,
                      std::string_view input,
                      const std::function<void(std::string_view)>& on_error_output) {
  const auto start = Clock::now();
  const auto end = start + deadline;
  options.pipe_stdout = true;
  options.pipe_stderr = !options.merge_stderr;
  options.pipe_stdin = !input.empty();
  TRY_ASSIGN(Process process, Process::Spawn(options));
  RunResult result;
  if (options.confinement != nullptr) {
    result.sandbox = std::make_shared<const SandboxReport>(process.sandbox());
  }
  {
    const SigpipeGuard guard;  // a child that closes its stdin early must not kill this process
    TRY(Transfer(process, end, max_output, input, options.stop, on_error_output, result));
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  TRY_ASSIGN(result.status, process.Wait(std::max(left, std::chrono::milliseconds(0))));
  if (result.status.timed_out) {
    result.status.seconds = std::chrono::duration<double>(deadline).count();
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace cupel::os
