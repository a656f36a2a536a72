// The coordinator's connection to one worker process: starts the process, moves lines without
// blocking, and detects when the worker has ended or is broken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/lines.h"
#include "os/process.h"
#include "serve/protocol.h"

namespace cupel::serve {

/// What a worker sent since the last Pump.
struct Arrivals {
  std::vector<FromWorker> messages;  // the worker's first message is a Hello
  std::vector<std::string> remarks;  // lines of its standard error, printable
  std::optional<std::string> ended;  // why nothing more will come
};

class Link {
 public:
  /// `grace`: time between SIGTERM and SIGKILL; it also applies if this process itself is killed.
  /// After a stop request, Kill() does not wait.
  static Result<std::unique_ptr<Link>> Start(const std::vector<std::string>& argv,
                                             std::chrono::milliseconds grace,
                                             const std::stop_token& stop);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  /// Kills the worker if it still runs.
  ~Link() = default;

  /// Queues a line, which is written as the worker reads.
  void Send(const ToWorker& message);
  /// Writes and reads as much as possible without blocking.
  Arrivals Pump();
  /// Closes the worker's standard input, which makes the worker end.
  void CloseStdin() { process_.stdin_pipe().Close(); }
  bool is_over() const { return is_over_; }
  void Terminate() { process_.Terminate(); }
  /// Kills the worker if it does not end soon. Returns how it ended.
  std::string Kill();

  /// For poll(2); -1 if there is nothing to wait for.
  int read_fd() { return is_over_ ? -1 : process_.stdout_pipe().get(); }
  int error_fd() { return error_ended_ ? -1 : process_.stderr_pipe().get(); }
  int write_fd() { return outgoing_.empty() ? -1 : process_.stdin_pipe().get(); }
  /// When the worker last sent bytes.
  std::chrono::steady_clock::time_point last_sign() const { return last_sign_; }

 private:
  explicit Link(os::Process process);
  void Write();
  void ReadErrors(Arrivals& arrivals);
  /// Parses lines into messages. Returns why the worker is broken, if it is.
  std::optional<std::string> TakeLines(Arrivals& arrivals);
  /// "printed: …": what a worker printed that has not sent hello.
  std::string OutputBeforeHello() const;

  os::Process process_;
  os::Lines lines_, error_lines_;
  std::string outgoing_;
  size_t written_ = 0;  // bytes of outgoing_
  bool got_hello_ = false, is_over_ = false, error_ended_ = false;
  std::deque<std::string> noise_;  // the last lines before hello
  size_t noise_bytes_ = 0, error_bytes_ = 0;
  std::string last_error_;
  std::chrono::steady_clock::time_point last_sign_;
};

}  // namespace cupel::serve
