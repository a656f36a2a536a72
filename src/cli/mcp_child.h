// A command of this same program, run as a child for a tool of the MCP server: it can be stopped at
// any moment, and what goes wrong in it stays in it. SPDX-License-Identifier: Apache-2.0
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

struct ChildEnd {
  int status = 0;        // exit status
  std::string out, err;  // at most 4 MiB each
};

/// Runs `cupel ARGUMENTS…` and shows its progress. Its temporary files are in `folder`: one that is
/// killed removes nothing itself. Errors: it could not be started, took longer than `limit`, was
/// killed, or the call was stopped.
Result<ChildEnd> RunSelf(const std::vector<std::string>& arguments,
                         const std::filesystem::path& folder, std::chrono::seconds limit,
                         serve::McpCall& call);

/// How far a command is, from a line of its plain progress ("12/55 trials · 3 s left · judging").
struct Step {
  double done = 0;
  std::optional<double> total;
};
Step StepOf(std::string_view line);

/// "cupel: …" and what follows: why a command could not do its work. The end of `err` when it does
/// not say.
std::string Complaint(std::string_view err);

}  // namespace cupel::cli
