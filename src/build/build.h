// Compiles a candidate with nvcc in the sandbox, against shim/ only, with a cache by content.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "build/image.h"
#include "os/sandbox.h"

namespace cupel::build {

/// Of a candidate.
inline constexpr size_t kMaxSourceBytes = 4u << 20;

struct Options {
  std::filesystem::path shim;      // the shim/ folder
  std::filesystem::path cache;     // created when missing; empty switches the cache off
  std::string arch = "sm_90";      // sm_80, sm_90, sm_90a, sm_100
  std::vector<std::string> flags;  // extra flags; each must be on the allow-list
  std::vector<std::filesystem::path> include_roots;  // read-only, e.g. CUTLASS
  std::chrono::seconds deadline{120};
  bool allow_weak_sandbox = false;  // os::Confinement::allow_weak
};

/// The file name by which messages and source lines know a candidate: its own where that is
/// harmless on a command line, else "candidate.cu".
std::string SourceName(const std::filesystem::path& source);

using Outcome = std::variant<Image, BuildFailure>;

/// Error: nvcc missing, cache not writable, flag not allowed, source unreadable or over 4 MiB.
Result<Outcome> Build(const std::filesystem::path& source, const Options& options);

/// nvcc found by $CUPEL_NVCC, $CUDA_HOME/bin, PATH, /usr/local/cuda/bin. Error tells how to
/// install.
struct Toolkit {
  std::filesystem::path nvcc;
  std::filesystem::path root;
  std::string version;  // "13.0.88"
};
Result<Toolkit> FindToolkit();

}  // namespace cupel::build
