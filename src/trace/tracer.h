// Records Python programs: runs them on tensors without data in a locked process, and makes plans
// of the operators and extensions that they call (docs/architecture.md, "Record").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "build/build.h"
#include "device/device.h"
#include "record/call_recorder.h"
#include "record/recorder.h"
#include "task/task.h"
#include "trace/program_code.h"
#include "trace/python_pool.h"

namespace cupel::trace {

/// A configuration of an autotuner: the place of its search in record::Recording::searches, and its
/// own place there.
struct WantedConfiguration {
  size_t search = 0, configuration = 0;
};

/// What a program is recorded with.
struct Options {
  std::shared_ptr<PythonPool> pool;
  build::Options build;    // of its extensions
  record::Options record;  // of their host code
  device::Description device;
  /// The arguments of the task's function and of its module at a setting: signature.py's answer.
  std::function<Result<Json>(const task::Setting&)> signature;
  /// The task's own module as Python text; the program's parameters are compared with it. May be
  /// empty.
  std::string reference;
  std::string text;  // of the program; empty: that of its file
  /// Which configuration a search of its autotuners is to choose; nullopt: each the first that
  /// fits. One that does not fit is refused as "no_configuration".
  std::optional<WantedConfiguration> wanted;
};

/// Records one program. A refusal ends the process that runs it; later calls start a new one.
class Tracer : public record::CallRecorder {
 public:
  /// Errors: the file cannot be read; PyTorch does not start.
  static Result<std::unique_ptr<Tracer>> Start(const std::filesystem::path& program,
                                               Options options);
  ~Tracer() override;

  Result<record::Outcome> Record(const std::string& function, const std::vector<task::Value>& args,
                                 const task::Setting& setting) override;
  Result<record::Outcome> Survey(const std::string& function, const std::vector<task::Value>& args,
                                 const task::Setting& setting) override;
  Result<std::variant<std::monostate, record::Refusal>> Recheck() override;
  const os::SandboxReport& sandbox() const override;
  /// What the program asked cupel to compile so far, in order; also if a recording was refused.
  const std::vector<ProgramCode>& code() const;

 private:
  struct Impl;
  explicit Tracer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cupel::trace
