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
#include "record/call_recorder.h"
#include "record/protocol.h"
#include "task/tensor.h"

namespace cupel::record {

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
class Recorder : public CallRecorder {
 public:
  /// `images` have one shared object in common.
  static Result<Recorder> Start(const build::Images& images, const device::Description& device,
                                const Options& options);
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  ~Recorder() override;

  /// Records `function` ("forward" or "backward") with arguments like these. The child does not see
  /// the values of tensors, except for one-element tensors, which count as scalars.
  Result<Outcome> Record(const std::string& function, const std::vector<task::Value>& args);
  Result<Outcome> Record(const Request& request);
  Result<Outcome> Record(const std::string& function, const std::vector<task::Value>& args,
                         const task::Setting& setting) override;
  Result<Outcome> Survey(const std::string& function, const std::vector<task::Value>& args,
                         const task::Setting& setting) override;

  /// The signatures of the functions that the extension exports: "f(x: torch.Tensor, k: int = 3)".
  Result<std::variant<std::vector<std::string>, Refusal>> Functions();

  Result<std::variant<std::monostate, Refusal>> Recheck() override;

  Result<std::optional<Refusal>> RecordOnOtherStream() override;

  const os::SandboxReport& sandbox() const override;

 private:
  struct Impl;
  explicit Recorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Body of the child process, with main()'s arguments. Returns the exit status.
int RecorderMain(int argc, char** argv);

}  // namespace cupel::record
