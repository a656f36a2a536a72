// The coordinator's end of one worker process: starts it, moves lines without ever waiting, and
// knows when it is no longer of use. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/process.h"
#include "serve/lines.h"
#include "serve/protocol.h"

namespace cupel::serve {

/// What came from a worker since it was last asked.
struct Arrivals {
  std::vector<FromWorker> messages;  // the first ever is a Hello
  std::vector<std::string> remarks;  // lines of its standard error, printable
  std::optional<std::string> ended;  // why nothing more will come
};

class Link {
 public:
  /// `grace`: between asking it to end and killing it, also where this process is killed itself.
  static Result<std::unique_ptr<Link>> Start(const std::vector<std::string>& argv,
                                             std::chrono::milliseconds grace);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  /// Kills what is left of the worker.
  ~Link() = default;

  /// Queues a line, which goes out as the worker reads.
  void Send(const ToWorker& message);
  /// Moves what can be moved now.
  Arrivals Pump();
  /// No more lines will be sent: a worker ends when its standard input does.
  void Hang() { process_.stdin_pipe().Close(); }
  bool is_over() const { return is_over_; }
  void Terminate() { process_.Terminate(); }
  /// Kills it; how it ended.
  std::string Kill();

  /// For poll(2); -1 where there is nothing to wait for.
  int read_fd() { return is_over_ ? -1 : process_.stdout_pipe().get(); }
  int error_fd() { return error_ended_ ? -1 : process_.stderr_pipe().get(); }
  int write_fd() { return outgoing_.empty() ? -1 : process_.stdin_pipe().get(); }
  /// When the last bytes came.
  std::chrono::steady_clock::time_point last_sign() const { return last_sign_; }

 private:
  explicit Link(os::Process process);
  void Write();
  void ReadErrors(Arrivals& arrivals);
  /// Takes lines as messages; why the worker is broken, if it is.
  std::optional<std::string> TakeLines(Arrivals& arrivals);
  /// Of one that ended before it said hello: what it said instead.
  std::string Unintroduced() const;

  os::Process process_;
  Lines lines_, error_lines_;
  std::string outgoing_;
  size_t written_ = 0;  // of it
  bool greeted_ = false, is_over_ = false, error_ended_ = false;
  std::deque<std::string> noise_;  // the last lines before hello
  size_t noise_bytes_ = 0, error_bytes_ = 0;
  std::string last_error_;
  std::chrono::steady_clock::time_point last_sign_;
};

}  // namespace cupel::serve
