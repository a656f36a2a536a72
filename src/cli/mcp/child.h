// Runs a command of this program as a child process for a tool of the MCP server. The child can be
// stopped at any moment, and its failures do not affect the server.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/mcp_offer.h"

namespace cupel::cli {

struct ChildResult {
  int status = 0;        // exit status
  std::string out, err;  // at most 4 MiB each
};

/// Runs `cupel ARGUMENTS…` and shows its progress. Its temporary files go into `folder`, because a
/// killed child does not remove them. Errors: the child could not be started, took longer than
/// `limit` or was killed, or the call was stopped.
Result<ChildResult> RunSelf(const std::vector<std::string>& arguments,
                            const std::filesystem::path& folder, std::chrono::seconds limit,
                            serve::McpCall& call);

/// A command's progress, parsed from a plain progress line ("12/55 trials · 3 s left · judging").
struct Step {
  double done = 0;
  std::optional<double> total;
};
Step StepOf(std::string_view line);

/// The last error message in `err`: the text after the last "cupel: " at the start of a line.
/// Without one, the end of `err`.
std::string LastError(std::string_view err);

}  // namespace cupel::cli
