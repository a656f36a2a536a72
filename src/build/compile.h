// One run of the compiler in the sandbox.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "build/build.h"

namespace cupel::build {

struct Job {
  const Toolkit* toolkit = nullptr;
  const Options* options = nullptr;
  std::string source_name;         // "kernel.cu"; a file of this name is in `folder`
  std::filesystem::path folder;    // the working folder, writable for the compiler
  std::vector<std::string> flags;  // checked
  std::string virtual_arch;        // "compute_90"
  std::string identity;            // 8 hex digits derived from the source
};

struct Compiled {
  bool ok = false;
  bool timed_out = false;
  bool limits = false;  // out of memory, CPU time or file size
  std::string trouble;  // "killed by SIGSEGV"; empty if ok
  std::string output;   // of all tools, for ParseDiagnostics
  std::string ptxas;    // for ParseResources
  std::filesystem::path shared_object, ptx, cubin;
  os::SandboxReport sandbox;  // the weakest one of all tools
};

/// An Error means that the sandbox or the toolkit cannot start. Compiler errors are data.
Result<Compiled> Compile(const Job& job);

/// The same for a PTX file: runs only ptxas, and makes only a cubin.
Result<Compiled> Assemble(const Job& job);

}  // namespace cupel::build
