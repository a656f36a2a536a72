// The extensions and the kernels of a Python program: compiles the extensions' sources, records the
// calls of their functions, compiles kernels that come as CUDA source, and assembles those of
// Triton.
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
#include "record/work.h"
#include "trace/join.h"
#include "trace/program_code.h"
#include "trace/sources.h"

namespace cupel::trace {

/// Answers a program's questions about its extensions and kernels. The questions come from hostile
/// code. Not thread-safe.
class Extensions {
 public:
  /// `program`: the Python file. Files that it names are next to it.
  Extensions(std::filesystem::path program, build::Options build, record::Options record,
             device::Description device);

  using Reply = std::variant<Json, record::Refusal>;
  /// {"name", "cpp", "cuda", "exports", "files", "flags", "named"}: compiles an extension, once.
  /// The reply has "image", "functions" and "libraries", the names in torch.ops.
  Result<Reply> Build(const Json& question);
  /// {"image", "function", "arguments"}: records a call, once. The reply has "call", the number of
  /// its Part, "outputs" and "tuple".
  Result<Reply> Call(const Json& question);
  /// {"name", "ptx", "fused"}: assembles a kernel that Triton compiled, once. "fused":
  /// multiplications and additions may be. The reply has "image", and "registers", "spills" and
  /// "threads" as ptxas and the kernel say.
  Result<Reply> Assemble(const Json& question);
  /// {"name", "language", "source", "flags", "instances"}: compiles CUDA source without host code,
  /// once, or assembles PTX if the "language" is "ptx". The
  /// reply has "image", "ptx", and "kernels": for each its "name", its "signature" as C++ writes
  /// it, the bytes of its "parameters", "registers", "shared" (static) and "threads" (at most).
  Result<Reply> Compile(const Json& question);
  /// Recorder::Recheck for all extensions. Calls are recorded once, so without this a function
  /// whose work depends on other calls would not be noticed.
  Result<std::variant<std::monostate, record::Refusal>> Recheck();

  const std::vector<Part>& parts() const { return parts_; }
  const build::Images& images() const { return images_; }
  /// The kernels that the program may launch itself.
  const Kernels& kernels() const { return kernels_; }
  /// Everything that was compiled, or could not be, in the order of the questions.
  const std::vector<ProgramCode>& code() const { return code_; }
  /// What was ignored or assumed.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Known {
    record::Recorder recorder;
    std::map<std::string, size_t> calls;  // the numbers of their parts, by function and arguments
  };
  Result<build::SourcesOutcome> BuildSources(const Sources& sources,
                                             const build::Options& options) const;
  Result<Reply> Load(build::Images images);
  /// Keeps an image without host code, and its kernels. Returns its number.
  int Keep(ProgramCode::Kind kind, const std::string& name, build::SourceFile source,
           build::Image image, std::vector<record::Kernel> kernels);

  std::filesystem::path program_;
  build::Options build_;
  record::Options record_;
  device::Description device_;
  std::map<std::string, Json> built_;  // replies by the hash of the question
  build::Images images_;
  std::map<int, Known> known_;  // by their first image
  Kernels kernels_;
  std::vector<Part> parts_;
  std::vector<ProgramCode> code_;
  std::vector<std::string> notes_;
};

}  // namespace cupel::trace
