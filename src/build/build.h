// Compiles a candidate with nvcc in the sandbox, using only the headers of shim/. Caches by
// content.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "build/image.h"
#include "build/sources.h"
#include "os/sandbox.h"

namespace cupel::build {

/// The maximum size of a candidate's source, or of all its files together.
inline constexpr size_t kMaxSourceBytes = 4u << 20;

struct Options {
  std::filesystem::path shim;                        // the shim/ folder
  std::filesystem::path cache;                       // created if missing; empty: no cache
  std::string arch = "auto";                         // or sm_80, sm_90, sm_90a, sm_100, sm_100a
  int device_major = 9;                              // of the compute capability, for "auto"
  std::vector<std::string> flags;                    // extra flags; each must be on the allow-list
  std::vector<std::filesystem::path> include_roots;  // read-only, e.g. CUTLASS
  std::chrono::seconds deadline{300};                // of all files together
  /// The schemas of PyTorch's operators (plan::OperatorRunner::Schemas), called if a source does
  /// not compile without them. If empty, or if it fails, sources that call operators do not
  /// compile.
  std::function<Result<std::vector<std::string>>()> operator_schemas = {};
  /// The build calls it every few seconds, from other threads, with what the compiler does.
  std::function<void(const std::string&)> progress = {};
  bool allow_weak_sandbox = false;  // os::Confinement::allow_weak
  std::stop_token stop;             // ends the compiler
};

/// The file name of a candidate in messages and source lines: its own if that is harmless on a
/// command line, else "candidate.cu".
std::string SourceName(const std::filesystem::path& source);

using Outcome = std::variant<Image, BuildFailure>;
using SourcesOutcome = std::variant<Images, BuildFailure>;

/// The architecture for which `source` is compiled: options.arch, and for "auto" that of the
/// device, with the suffix "a" if the text shows that it needs instructions that only sm_90a or
/// sm_100a has.
std::string ArchFor(const Options& options, std::string_view source);

/// If the compiler says that the code needs the suffix "a", "auto" builds again with it.
/// Error: nvcc missing, cache not writable, flag not allowed, source unreadable or over 4 MiB,
/// kCancelled.
Result<Outcome> Build(const std::filesystem::path& source, const Options& options);

/// Compiles each file by itself and links them to one shared object, as PyTorch's build does.
/// Returns one image for each .cu file, in the order of the files: the n-th fat binary that the
/// shared object registers is that of image n. Error: as Build.
Result<SourcesOutcome> Build(const Sources& sources, const Options& options);

/// Compiles CUDA source without host code, as NVRTC does. `instances` are the names of instances of
/// kernel templates to compile, as in "scale<float>". The image has no code of the host. Error: as
/// Build.
Result<Outcome> BuildDevice(const SourceFile& source, const std::vector<std::string>& instances,
                            const Options& options);

/// Assembles PTX that another compiler than nvcc made, in the same sandbox and cache. The image has
/// no code of the host: its shared object is an empty file. `options.arch` is the target of the
/// text; `flags` are ptxas's. Error: as Build.
Result<Outcome> BuildPtx(const std::string& ptx, const std::vector<std::string>& flags,
                         const Options& options);

/// nvcc from $CUPEL_NVCC, $CUDA_HOME/bin, PATH or /usr/local/cuda/bin. The Error says how to
/// install it.
struct Toolkit {
  std::filesystem::path nvcc;
  std::filesystem::path root;
  std::string version;  // "13.0.88"
};
Result<Toolkit> FindToolkit(const std::stop_token& stop = {});

}  // namespace cupel::build
