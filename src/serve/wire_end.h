// The worker's side of the connection. One thread reads the coordinator's messages, another sends
// heartbeats, and the judging thread sends and receives. When the coordinator ends or says bye, the
// worker's current work is stopped. If it does not stop, the process is killed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "base/result.h"
#include "serve/protocol.h"

namespace cupel::serve {

struct WireOptions {
  int in = 0, out = 1;
  std::chrono::milliseconds heartbeat{2'000};
  /// The coordinator sends a line every ten seconds. After this time without one, it counts as
  /// lost.
  std::chrono::milliseconds silence{600'000};
  /// Time from the end of the coordinator until this process is ended by force.
  std::chrono::milliseconds grace{5'000};
  std::stop_token stop = {};  // ends the connection
};

class WireEnd {
 public:
  explicit WireEnd(const WireOptions& options);
  ~WireEnd();
  WireEnd(const WireEnd&) = delete;
  WireEnd& operator=(const WireEnd&) = delete;

  /// Thread-safe. Errors: the coordinator has ended.
  Status Send(const FromWorker& message);
  /// Waits for the next message, without heartbeats. Errors: kCancelled: the coordinator has ended.
  Result<ToWorker> Receive();
  /// Sets the content of later heartbeats. A new stage or ticket is sent at once.
  void Show(Alive alive);
  /// True if the coordinator said bye or has ended, so that this worker ends without an error.
  bool is_over();
  /// Stopped when the connection ends: the token for the worker's work.
  std::stop_token stop() const { return stop_.get_token(); }

 private:
  void Read();
  void SendHeartbeats();
  void Close(const std::string& why);
  Status Write(const std::string& line);

  WireOptions options_;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> pass_on_{options_.stop,
                                                     [this] { stop_.request_stop(); }};
  std::mutex writing_, mutex_;
  std::condition_variable changed_;
  std::deque<ToWorker> received_;
  Alive shown_;
  bool is_over_ = false, is_ending_ = false;
  std::thread reader_, heartbeat_thread_;
};

}  // namespace cupel::serve
