// Compilers' messages as data, and what to tell the author of a candidate about them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "build/image.h"

namespace cupel::build {

/// Reads the output of cudafe++, cicc, gcc, ptxas and ld: hostile text, of which at most 200
/// messages are kept, each at most 1000 bytes. Paths below `folder` are given relative to it.
/// Messages that come twice (from the host's and the device's half) are kept once.
std::vector<Diagnostic> ParseDiagnostics(std::string_view text,
                                         const std::filesystem::path& folder);

/// The failure that the errors among `diagnostics` amount to. `source` is the candidate's file name
/// in them; `operators` are PyTorch's operators, sorted, by which a misspelt name is told from a
/// call of the framework. `fallback` is said when there is no error among them.
BuildFailure Explain(std::vector<Diagnostic> diagnostics, const std::string& source,
                     const std::vector<std::string>& operators, const std::string& fallback);

/// ptxas -v.
std::vector<KernelResources> ParseResources(std::string_view text);

}  // namespace cupel::build
