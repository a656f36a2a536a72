// The client's end of oracle.py: starts the child, sends requests, receives replies. Private
// folders for case files belong to it and go away with it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "os/fd.h"
#include "os/process.h"

namespace cupel::oracle {

struct ChildOptions {
  std::string python;
  std::filesystem::path script;
  std::chrono::seconds deadline{600};  // of one step: the child reports every step
  std::function<void(const std::string&)> progress;
  int threads = 0;  // of the CPU; 0: all
};

/// Not thread-safe.
class TorchChild {
 public:
  /// Waits until PyTorch is loaded. Errors: kEnvironment when it does not load.
  static Result<std::unique_ptr<TorchChild>> Start(ChildOptions options);
  TorchChild(const TorchChild&) = delete;
  TorchChild& operator=(const TorchChild&) = delete;
  ~TorchChild();

  /// `request` holds its number as "id". A child that has died shows in Receive.
  Status Send(const Json& request);
  /// The reply to request `id`; others that come in between are kept. nullopt when the child died:
  /// Obituary() says how. Errors: kTimeout after `deadline` without a sign of life, kCancelled.
  Result<std::optional<Json>> Receive(int64_t id);
  /// The same without waiting longer than `patience` in all; nullopt also when nothing came.
  Result<std::optional<Json>> ReceiveSoon(int64_t id, std::chrono::milliseconds patience);

  bool alive() const { return alive_; }
  /// "killed by SIGKILL: out of memory?" and the last line of its stderr.
  std::string Obituary();
  /// After Obituary(): by SIGKILL.
  bool was_killed() const { return was_killed_; }

 private:
  enum class Pump { kProgress, kTimeout, kDead };

  explicit TorchChild(ChildOptions options) : options_(std::move(options)) {}
  Status CreateFolders();
  Status AwaitHello();
  /// Reads what there is, within `patience`.
  Result<Pump> PumpOnce(std::chrono::milliseconds patience);
  void TakeLines();

  ChildOptions options_;
  std::vector<os::TempDir> folders_;
  std::optional<os::Process> process_;
  bool alive_ = false;
  bool was_killed_ = false;
  std::optional<Json> hello_;
  std::string received_;  // an unfinished line
  std::string complaints_;
  std::map<int64_t, Json> replies_;
  std::string protocol_error_;
};

}  // namespace cupel::oracle
