// One run of the compiler in the sandbox: compiles each file by itself, and links them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "build/build.h"

namespace cupel::build {

/// One file that is compiled by itself.
struct Unit {
  std::string source_name;  // "kernel.cu", relative to the job's folder, where it is
  /// The folder for what nvcc writes, relative to the job's folder; empty: the job's folder.
  std::string keep = {};
  std::string identity = {};  // 8 hex digits derived from the source
  bool is_cuda = true;        // false: C++, only for the host
};

struct Job {
  const Toolkit* toolkit = nullptr;
  const Options* options = nullptr;
  std::vector<Unit> units;            // in the order of linking; at least one is CUDA
  std::vector<std::string> includes;  // folders, relative to `folder`
  std::filesystem::path folder;       // the working folder, writable for the compiler
  std::vector<std::string> flags;     // checked
  std::string virtual_arch;           // "compute_90"
};

struct Compiled {
  bool ok = false;
  bool timed_out = false;
  bool limits = false;  // out of memory, CPU time or file size
  std::string trouble;  // "killed by SIGSEGV"; empty if ok
  std::string output;   // of all tools, for ParseDiagnostics
  /// If a header is missing: all headers that are, as the sources name them. The compiler stops at
  /// the first.
  std::vector<std::string> missing_headers;
  /// The device code of a CUDA unit.
  struct Code {
    std::string ptxas;  // for ParseResources
    std::filesystem::path ptx, cubin;
  };
  std::vector<Code> code;  // one for each CUDA unit, in their order
  std::filesystem::path shared_object;
  std::filesystem::path filled_object;  // of Image; may be empty
  os::SandboxReport sandbox;            // the weakest one of all tools
};

/// An Error means that the sandbox or the toolkit cannot start. Compiler errors are data.
Result<Compiled> Compile(const Job& job);

/// Compiles the device's half of one CUDA file: makes PTX and a cubin.
Result<Compiled> CompileDevice(const Job& job);

/// The same for one PTX file: runs only ptxas, and makes only a cubin.
Result<Compiled> Assemble(const Job& job);

}  // namespace cupel::build
