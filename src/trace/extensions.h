// The extensions of a Python program: compiles their sources, and records the calls of their functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "build/build.h"
#include "device/device.h"
#include "record/recorder.h"
#include "trace/join.h"

namespace cupel::trace {

/// Answers a program's questions about its extensions. The questions come from hostile code. Not
/// thread-safe.
class Extensions {
 public:
  /// `program`: the Python file. Files that it names are next to it.
  Extensions(std::filesystem::path program, build::Options build, record::Options record,
             device::Description device);

  using Reply = std::variant<Json, record::Refusal>;
  /// {"name", "cpp", "cuda", "exports", "files", "flags"}: compiles an extension, once. The reply has
  /// "image" and "functions".
  Result<Reply> Build(const Json& question);
  /// {"image", "function", "arguments"}: records a call, once. The reply has "call", the number of
  /// its Part, "outputs" and "tuple".
  Result<Reply> Call(const Json& question);

  const std::vector<Part>& parts() const { return parts_; }
  const build::Images& images() const { return images_; }
  /// What was ignored or assumed.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Known {
    record::Recorder recorder;
    std::map<std::string, size_t> calls;  // the numbers of their parts, by function and arguments
  };
  Result<Reply> Load(build::Image image);

  std::filesystem::path program_;
  build::Options build_;
  record::Options record_;
  device::Description device_;
  std::map<std::string, Json> built_;  // replies by question
  build::Images images_;
  std::vector<Known> known_;  // by image
  std::vector<Part> parts_;
  std::vector<std::string> notes_;
};

}  // namespace cupel::trace
