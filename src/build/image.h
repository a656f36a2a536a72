// The result of a build: the host shared object (for the recorder), the PTX (for the emulator), the
// cubin (for the GPU), resources and diagnostics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "os/temp_dir.h"

namespace cupel::build {

struct Diagnostic {
  enum class Severity { kError, kWarning, kNote } severity = Severity::kError;
  std::string file;  // relative to the candidate's folder if inside it
  int line = 0;
  std::string message;
};

/// ptxas's report for one kernel.
struct KernelResources {
  std::string kernel;  // mangled
  int registers = 0;
  int static_shared = 0;
  int local_bytes = 0;   // stack frame
  int spill_stores = 0;  // bytes
  int spill_loads = 0;
  int constant_bytes = 0;
  /// What ptxas says about lost speed ("wgmma.mma_async instructions are serialized due to …
  /// (C7515)"). At most kMostRemarks.
  std::vector<std::string> remarks = {};
};
inline constexpr size_t kMostRemarks = 8;

/// The code of one .cu file. Files of one candidate have a shared object in common.
struct Image {
  std::string key;                      // SHA-256 over sources, flags, toolkit and shim
  std::filesystem::path shared_object;  // in the build cache; loaded only by the recorder
  /// The same host code, but variables that it leaves undefined contain bytes 0xfe. Empty if the
  /// host compiler cannot do that, or if no bytes of such variables can reach the GPU.
  std::filesystem::path filled_object;
  std::string ptx;
  std::filesystem::path cubin;  // may be empty if only PTX was requested
  std::vector<KernelResources> resources;
  std::vector<Diagnostic> warnings;
  std::vector<std::string> notes;  // "uses inline assembly", "uses cuBLAS": allowed, worth knowing
  std::filesystem::path source;    // the file as the user named it, for messages
  std::string source_name;         // of the file in diagnostics and line tables
  std::string source_hash;         // of all files of the candidate
  std::string toolkit;             // "nvcc 13.0.88"
  std::string arch;                // "sm_90a"
  std::vector<std::string> flags;
  bool is_of_triton = false;  // Triton's compiler made the PTX
  bool from_cache = false;
  double build_seconds = 0;  // of the original build
  /// Without a cache: the folder of the files, deleted with the last copy of the image.
  std::shared_ptr<const os::TempDir> folder;
};

/// The code of one candidate: one image for each .cu file, and for each kernel of Triton.
using Images = std::vector<std::shared_ptr<const Image>>;

inline Images OneImage(Image image) { return {std::make_shared<const Image>(std::move(image))}; }

/// The candidate does not compile: data, not an Error.
struct BuildFailure {
  /// "compile_error", "unsupported_operator", "unsupported_api" (a PyTorch header that the shim
  /// lacks), "no_module", "build_timeout", "build_limits"
  std::string code;
  std::string message;  // one sentence
  std::string where;    // "kernel.cu:12" or empty
  std::vector<Diagnostic> diagnostics;
  bool unsupported = false;  // exit status 3 rather than 1
  std::string source_hash = {};
};

}  // namespace cupel::build
