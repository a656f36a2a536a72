// The child processes of `cupel confirm` (oracle/confirm.py). The kernel's PyTorch extension is
// hostile code, so it runs in the tightest sandbox in which CUDA starts. PyTorch's own answers run
// in a separate process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/json.h"
#include "oracle/python.h"
#include "os/sandbox.h"

namespace cupel::app {

/// What a kernel's host code may access.
enum class SandboxLevel {
  kFull,  // reads the toolkit, PyTorch and the driver; writes its own folder; no network
  kWide,  // reads everything that its user may read; writes its own folder; no network
  kNone,  // a plain child process
};
const char* Describe(SandboxLevel sandbox_level);

/// A child's result, or why it has none.
struct ChildReply {
  Json json = Json::object();
  std::string failure;  // of the child: a crash, an exception, a deadline
};

class ConfirmChildren {
 public:
  /// Finds out which Python and PyTorch to use. This starts PyTorch once. `stop` ends all children.
  static Result<ConfirmChildren> Create(const std::string& python, int ordinal,
                                        const std::stop_token& stop = {});

  /// Fails with kEnvironment if this PyTorch is built without CUDA.
  Status RequireCuda() const;

  /// Finds the tightest sandbox level in which CUDA starts. `unsandboxed` also allows kNone.
  Status FindConfinement(bool unsandboxed);

  /// Runs confirm.py in its own folder. The child can also read `readable` and, unless it is empty,
  /// write `writable`. An Error means that cupel failed; the child's failures are in the reply.
  Result<ChildReply> RunConfined(const std::string& mode, const Json& request,
                                 const std::vector<std::filesystem::path>& readable,
                                 const std::filesystem::path& writable, bool gpu,
                                 std::chrono::seconds deadline) const;
  Result<ChildReply> RunTrusted(const std::string& mode, const Json& request,
                                std::chrono::seconds deadline) const;

  const oracle::Python& python() const { return python_; }
  const Json& look() const { return look_; }
  void Use(SandboxLevel sandbox_level) { sandbox_level_ = sandbox_level; }  // without testing it
  void AllowWeak(bool allowed) { allow_weak_ = allowed; }                   // os::Confinement
  SandboxLevel sandbox_level() const { return sandbox_level_; }
  const std::vector<std::string>& missing() const { return missing_; }
  const std::string& gpu() const { return gpu_; }
  int ordinal() const { return ordinal_; }

 private:
  ConfirmChildren() = default;
  os::Confinement Confine(SandboxLevel level, bool gpu) const;
  Result<bool> Try(SandboxLevel level);
  Result<ChildReply> Run(const std::string& mode, const Json& request,
                         const std::filesystem::path& folder, const os::Confinement* confinement,
                         const std::filesystem::path& home, std::chrono::seconds deadline) const;

  oracle::Python python_;
  std::filesystem::path script_;
  Json look_;
  int ordinal_ = 0;
  std::stop_token stop_;
  SandboxLevel sandbox_level_ = SandboxLevel::kFull;
  bool allow_weak_ = false;
  std::vector<std::string> missing_;  // protections of this level that the system does not provide
  std::string gpu_, last_failure_;
};

}  // namespace cupel::app
