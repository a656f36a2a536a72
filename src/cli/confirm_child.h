// The children of `cupel confirm` (oracle/confirm.py): the kernel as a PyTorch extension is hostile
// code, so it runs in as much of a sandbox as lets CUDA start; PyTorch's own answers run apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "oracle/python.h"
#include "os/fd.h"
#include "os/sandbox.h"

namespace cupel::cli {

/// How much a kernel's host code is kept from.
enum class Confinedness {
  kFull,  // the toolkit, PyTorch and the driver to read; its own folder to write; no network
  kWide,  // everything that its user may read; its own folder to write; no network
  kNone,  // a plain child process
};
const char* Describe(Confinedness confinedness);

/// Asks and answers: what a child said, or why it said nothing.
struct ChildReply {
  Json json = Json::object();
  std::string failure;  // of the child: a crash, an exception, a deadline
};

class ConfirmChildren {
 public:
  /// Looks at the Python, which starts PyTorch once.
  static Result<ConfirmChildren> Create(const std::string& python, int ordinal);

  /// kEnvironment where this PyTorch is built without CUDA.
  Status RequireCuda() const;

  /// Finds the tightest confinement in which CUDA starts; `unsandboxed` allows none at all.
  Status FindConfinement(bool unsandboxed);

  /// Runs confirm.py in a folder of its own. `readable` is let in beside what Python needs, and
  /// `writable`, if any, is the child's to write. Errors are ours; what the child does wrong is in
  /// the reply.
  Result<ChildReply> RunConfined(const std::string& mode, const Json& request,
                                 const std::vector<std::filesystem::path>& readable,
                                 const std::filesystem::path& writable, bool gpu,
                                 std::chrono::seconds deadline) const;
  Result<ChildReply> RunTrusted(const std::string& mode, const Json& request,
                                std::chrono::seconds deadline) const;

  const oracle::Python& python() const { return python_; }
  const Json& look() const { return look_; }
  void Use(Confinedness confinedness) { confinedness_ = confinedness; }  // without trying it
  void AllowWeak(bool allowed) { allow_weak_ = allowed; }                // os::Confinement
  Confinedness confinedness() const { return confinedness_; }
  const std::vector<std::string>& missing() const { return missing_; }
  const std::string& gpu() const { return gpu_; }
  int ordinal() const { return ordinal_; }

 private:
  ConfirmChildren() = default;
  os::Confinement Confine(Confinedness level, bool gpu) const;
  Result<bool> Try(Confinedness level);
  Result<ChildReply> Run(const std::string& mode, const Json& request,
                         const std::filesystem::path& folder, const os::Confinement* confinement,
                         const std::filesystem::path& home, std::chrono::seconds deadline) const;

  oracle::Python python_;
  std::filesystem::path script_;
  Json look_;
  int ordinal_ = 0;
  Confinedness confinedness_ = Confinedness::kFull;
  bool allow_weak_ = false;
  std::vector<std::string> missing_;  // of that confinement, as the kernel refused it
  std::string gpu_, trouble_;
};

}  // namespace cupel::cli
