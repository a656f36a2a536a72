// The client side of oracle.py: starts the child, sends requests, receives replies. It owns private
// folders for case files and deletes them at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "os/lines.h"
#include "os/process.h"
#include "os/temp_dir.h"

namespace cupel::oracle {

struct ChildOptions {
  std::string python;
  std::filesystem::path script;
  std::chrono::seconds deadline{600};  // of one step: the child reports every step
  std::function<void(const std::string&)> progress;
  int threads = 0;       // CPU threads; 0: all
  std::stop_token stop;  // calls then return kCancelled
};

/// The exit status of a child whose GPU does not work until the process ends (case_server.py).
inline constexpr int kGpuFailed = 75;

/// Not thread-safe.
class TorchChild {
 public:
  /// Waits until PyTorch is loaded. Errors: kEnvironment if it does not load.
  static Result<std::unique_ptr<TorchChild>> Start(ChildOptions options);
  TorchChild(const TorchChild&) = delete;
  TorchChild& operator=(const TorchChild&) = delete;
  ~TorchChild();

  /// `request` contains its number as "id". If the child has died, Receive() reports it.
  Status Send(const Json& request);
  /// Returns the reply to request `id` and keeps replies to other requests. Returns nullopt if the
  /// child died: ExitReason() says why. Errors: kTimeout if the child reports nothing for
  /// `deadline`, kCancelled.
  Result<std::optional<Json>> Receive(int64_t id);
  /// Like Receive(), but waits for `patience` at most. Also returns nullopt if no reply came.
  Result<std::optional<Json>> ReceiveSoon(int64_t id, std::chrono::milliseconds patience);

  bool alive() const { return alive_; }
  /// Why the child ended, and the last line of its stderr: "killed by SIGKILL (out of memory? …)".
  std::string ExitReason();
  /// True if the child was killed by SIGKILL. Valid after ExitReason().
  bool was_killed() const { return was_killed_; }
  /// True if it ended with kGpuFailed. Valid after ExitReason().
  bool gpu_failed() const { return gpu_failed_; }

 private:
  enum class Pump { kProgress, kTimeout, kDead };

  explicit TorchChild(ChildOptions options);
  Status CreateFolders();
  Status AwaitHello();
  /// Reads the available output, waiting for `patience` at most.
  Result<Pump> PumpOnce(std::chrono::milliseconds patience);
  void TakeLines();

  ChildOptions options_;
  std::vector<os::TempDir> folders_;
  std::optional<os::Process> process_;
  bool alive_ = false;
  bool was_killed_ = false;
  bool gpu_failed_ = false;
  std::optional<Json> hello_;
  os::Lines lines_;
  std::string error_text_;
  std::map<int64_t, Json> replies_;
  std::string protocol_error_;
};

}  // namespace cupel::oracle
