// The worker's end of the wire: a thread reads what the coordinator says, another gives signs of
// life, and whoever judges sends and receives. When the coordinator is gone, or says bye, the whole
// process is asked to end, and made to if it does not. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "serve/protocol.h"

namespace cupel::serve {

struct WireOptions {
  int in = 0, out = 1;
  std::chrono::milliseconds beat{2'000};
  /// The coordinator sends a line every ten seconds; it is gone when none came for so long.
  std::chrono::milliseconds silence{600'000};
  /// After the coordinator has gone, until this process is ended whatever it does.
  std::chrono::milliseconds grace{5'000};
};

class WireEnd {
 public:
  explicit WireEnd(const WireOptions& options);
  ~WireEnd();
  WireEnd(const WireEnd&) = delete;
  WireEnd& operator=(const WireEnd&) = delete;

  /// Thread-safe. Errors: the coordinator is gone.
  Status Send(const FromWorker& message);
  /// The next message but for signs of life. kCancelled when there will be none.
  Result<ToWorker> Receive();
  /// What signs of life say from now on; sent at once when it changes.
  void Show(Alive alive);
  /// Bye came, or the coordinator has gone: the end was not an accident here.
  bool is_over();

 private:
  void Read();
  void Beat();
  void Close(const std::string& why);
  Status Write(const std::string& line);

  WireOptions options_;
  std::mutex writing_, mutex_;
  std::condition_variable changed_;
  std::deque<ToWorker> received_;
  Alive shown_;
  bool is_over_ = false, is_ending_ = false;
  std::thread reader_, beater_;
};

}  // namespace cupel::serve
