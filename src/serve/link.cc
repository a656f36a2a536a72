// SPDX-License-Identifier: Apache-2.0
#include "serve/link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "os/sigpipe.h"
#include "term/text.h"

namespace cupel::serve {
namespace {

/// Bytes that a login shell may print before the worker's hello.
constexpr size_t kMostNoise = 64u << 10;
constexpr size_t kShownNoise = 8;  // lines
/// Bytes of a worker's standard error that are shown; the rest is dropped.
constexpr size_t kMostErrorBytes = 64u << 10;
constexpr size_t kLongestRemark = 2000;
/// Bytes read from one worker at a time, so that the others do not wait.
constexpr size_t kAtOnce = 1u << 20;

void MakeNonBlocking(const os::Fd& fd) {
  if (fd) fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

/// Reads the available bytes into `lines`; false at the end of the stream.
bool ReadInto(int fd, os::Lines& lines, size_t& total) {
  char buffer[65536];
  for (size_t read_now = 0; read_now < kAtOnce;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    lines.Feed({buffer, static_cast<size_t>(n)});
    total += static_cast<size_t>(n);
    read_now += static_cast<size_t>(n);
  }
  return true;
}

/// The line in printable form. ssh ends its own messages with a carriage return, which is removed.
std::string Shown(std::string_view line, size_t longest) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return Printable(line.substr(0, longest));
}

}  // namespace

Link::Link(os::Process process)
    : process_(std::move(process)),
      lines_(kLongestLine),
      error_lines_(kMostErrorBytes),
      last_sign_(std::chrono::steady_clock::now()) {
  MakeNonBlocking(process_.stdin_pipe());
  MakeNonBlocking(process_.stdout_pipe());
  MakeNonBlocking(process_.stderr_pipe());
}

Result<std::unique_ptr<Link>> Link::Start(const std::vector<std::string>& argv,
                                          std::chrono::milliseconds grace,
                                          const std::stop_token& stop) {
  os::SpawnOptions options;
  options.argv = argv;
  options.env = os::CurrentEnvironment();
  options.pipe_stdin = options.pipe_stdout = options.pipe_stderr = true;
  // A launcher that is killed at once leaves its job running.
  options.grace = grace;
  options.stop = stop;
  TRY_ASSIGN(os::Process process, os::Process::Spawn(options));
  return std::unique_ptr<Link>(new Link(std::move(process)));
}

void Link::Send(const ToWorker& message) {
  if (is_over_ || !process_.stdin_pipe()) return;
  outgoing_ += LineOf(message);
  outgoing_ += '\n';
  Write();
}

void Link::Write() {
  const os::SigpipeGuard guard;
  while (written_ < outgoing_.size() && process_.stdin_pipe()) {
    const ssize_t n = write(process_.stdin_pipe().get(), outgoing_.data() + written_,
                            outgoing_.size() - written_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {  // it no longer reads; Pump detects its end when reading its output
      process_.stdin_pipe().Close();
      break;
    }
    written_ += static_cast<size_t>(n);
  }
  outgoing_.clear();
  written_ = 0;
}

void Link::ReadErrors(Arrivals& arrivals) {
  if (error_ended_) return;
  const bool is_cut_off = error_bytes_ > kMostErrorBytes;
  error_ended_ = !ReadInto(process_.stderr_pipe().get(), error_lines_, error_bytes_);
  for (;;) {
    auto line = error_lines_.Next();
    if (!line) {  // the line is too long
      error_ended_ = true;
      return;
    }
    if (!*line) break;
    last_error_ = Shown(**line, kLongestRemark);
    if (!is_cut_off) arrivals.remarks.push_back(last_error_);
  }
  if (!is_cut_off && error_bytes_ > kMostErrorBytes) {
    arrivals.remarks.push_back("(further messages are not shown)");
  }
}

std::optional<std::string> Link::TakeLines(Arrivals& arrivals) {
  for (;;) {
    auto line = lines_.Next();
    if (!line) return fmt::format("it sent {}", line.error().message);
    if (!*line) break;
    std::string_view text = **line;
    if (!got_hello_) {
      const auto hello = FindHello(text);
      if (!hello) {
        noise_bytes_ += text.size() + 1;
        noise_.push_back(Shown(text, 200));
        if (noise_.size() > kShownNoise) noise_.pop_front();
        continue;
      }
      text.remove_prefix(*hello);
    }
    auto message = ReadFromWorker(text);
    if (!message) return fmt::format("it sent a broken line ({})", message.error().message);
    if (std::holds_alternative<Hello>(*message) == got_hello_) {
      return std::string("it sent hello twice, or another message first");
    }
    got_hello_ = true;
    arrivals.messages.push_back(std::move(*message));
  }
  if (!got_hello_ && noise_bytes_ + lines_.rest().size() > kMostNoise) {
    return fmt::format("it did not send hello; it {}", OutputBeforeHello());
  }
  return std::nullopt;
}

std::string Link::OutputBeforeHello() const {
  std::vector<std::string> said(noise_.begin(), noise_.end());
  if (!lines_.rest().empty()) said.push_back(Printable(lines_.rest().substr(0, 200)));
  if (said.empty()) return "printed nothing";
  return fmt::format("printed: {}", fmt::join(said, " | "));
}

Arrivals Link::Pump() {
  Arrivals arrivals;
  if (is_over_) return arrivals;
  Write();
  size_t bytes = 0;
  const bool open = ReadInto(process_.stdout_pipe().get(), lines_, bytes);
  if (bytes > 0) last_sign_ = std::chrono::steady_clock::now();
  ReadErrors(arrivals);
  if (auto broken = TakeLines(arrivals)) {
    is_over_ = true;
    process_.Kill();
    arrivals.ended = std::move(broken);
  } else if (!open) {
    // Read standard error once more: the last messages say why it ended.
    const std::string how = Kill();
    ReadErrors(arrivals);
    arrivals.ended = how;
    if (!got_hello_) {
      *arrivals.ended += fmt::format(" before it sent hello; it {}", OutputBeforeHello());
    }
    if (!last_error_.empty()) *arrivals.ended += fmt::format("; its last message: {}", last_error_);
  }
  return arrivals;
}

std::string Link::Kill() {
  is_over_ = true;
  // A worker that has closed its output is about to end by itself.
  const auto status = process_.Wait(std::chrono::milliseconds(500));
  process_.Kill();
  return status ? status->Describe() : "ended";
}

}  // namespace cupel::serve
