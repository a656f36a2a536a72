// Turns a candidate's host code into plans: runs it in a locked-down child against a stand-in CUDA
// runtime whose device addresses are fake and unmapped (docs/architecture.md, "Record").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "build/image.h"
#include "device/device.h"
#include "os/sandbox.h"
#include "plan/operators.h"
#include "plan/plan.h"
#include "task/tensor.h"

namespace cupel::record {

/// The candidate cannot be recorded, or its host code failed. This is data, not an Error.
struct Refusal {
  /// "host_crash", "host_timeout", "host_exception", "wrong_arguments", "no_function",
  /// "wrong_return", "reads_device_memory", "impure" (plan depends on earlier calls or addresses),
  /// "unordered_work", "freed_memory", "host_privilege" (threads, files, sockets …),
  /// "illegal_launch", "unsupported_operator", "unsupported_api"
  std::string code;
  std::string message;  // one sentence with the cause
  std::string where;    // the argument, API or kernel; may be empty
  bool unsupported = false;
};

struct Recording {
  build::Images images;  // that the plans' launches and variables refer to
  plan::Plan plan;
  std::optional<plan::Plan> first;  // plan of the first call, if it differs
  double host_us = 0;               // median host time of one steady-state call
  int recordings = 0;               // number of calls that had to agree
};

using Outcome = std::variant<Recording, Refusal>;

struct Options {
  /// The program whose main() calls RecorderMain if argv[1] is "recorder".
  std::filesystem::path program;
  std::chrono::milliseconds deadline{5000};  // for one Record call
  bool allow_weak_sandbox = false;           // os::Confinement::allow_weak
  int recordings = 256;                      // at least; a random number is added
  uint64_t seed = 0;                         // of fake addresses
  /// Knows PyTorch's operators. Without it, host code that calls one is refused.
  std::shared_ptr<plan::OperatorRunner> operators = nullptr;
  std::stop_token stop;  // calls then return kCancelled
};

/// Records one candidate in a child process. A crash or refusal ends the child; later calls start a
/// new one.
class Recorder {
 public:
  static Result<Recorder> Start(const build::Image& image, const device::Description& device,
                                const Options& options);
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  ~Recorder();

  /// Records `function` ("forward" or "backward") with arguments like these. The child does not see
  /// the values of tensors, except for one-element tensors, which count as scalars.
  Result<Outcome> Record(const std::string& function, const std::vector<task::Value>& args);

  /// Records all earlier requests once more and compares the plans. Refuses with "impure" if a plan
  /// changed.
  Result<std::variant<std::monostate, Refusal>> Recheck();

  const os::SandboxReport& sandbox() const;

 private:
  struct Impl;
  explicit Recorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Body of the child process, with main()'s arguments. Returns the exit status.
int RecorderMain(int argc, char** argv);

}  // namespace cupel::record
