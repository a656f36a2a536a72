// Compilers' messages as data, and the explanation of a failure for the candidate's author.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "build/image.h"
#include "build/sources.h"

namespace cupel::build {

/// Parses the output of cudafe++, cicc, gcc, ptxas and ld. This is hostile text: keeps at most 200
/// messages of at most 1000 bytes each. Paths below `folder` become relative to it. Drops duplicate
/// messages (from the host's and the device's half).
std::vector<Diagnostic> ParseDiagnostics(std::string_view text,
                                         const std::filesystem::path& folder);

/// Adds an error for each of `headers`, which are missing, if there is none yet: a compiler stops
/// at the first. Takes the places of the includes from `files`. At most 64.
void AddMissingHeaders(const std::vector<std::string>& headers,
                       const std::vector<SourceFile>& files, std::vector<Diagnostic>& diagnostics);

/// PyTorch's operators that a source may call. They distinguish a call of the framework from a
/// misspelt name.
struct CallableOperators {
  std::vector<std::string> names;  // sorted
  bool unqualified = false;        // also without a namespace
};

/// The failure that the errors among `diagnostics` mean. `sources` are the candidate's file names
/// in them. `fallback` is the message if there is no error.
BuildFailure Explain(std::vector<Diagnostic> diagnostics, const std::vector<std::string>& sources,
                     const CallableOperators& operators, const std::string& fallback);

/// Parses the output of ptxas -v.
std::vector<KernelResources> ParseResources(std::string_view text);

}  // namespace cupel::build
