// The tools of `cupel mcp`. Commands that judge run as child processes. The server itself reads
// tasks and runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/mcp/records.h"
#include "cli/options/options.h"
#include "serve/mcp_offer.h"

namespace cupel::cli {

/// What all calls share: the server's options, and its records. Thread-safe.
struct McpSetting {
  app::Common common;  // device, model and python of every command
  app::Compile compile;
  std::chrono::seconds limit{};  // of a call
  std::filesystem::path tasks;   // folder of the tasks
  std::unique_ptr<McpRecords> records;
  /// The reviewers. Their transcript records the cost of all calls, so the budget applies to all
  /// calls together. Only one call asks at a time (`asking`).
  app::ModelOptions models;
  std::filesystem::path calibration;
  mutable std::timed_mutex asking;
};

/// Commands: check, build, bench, profile, extract, verify, doctor. `setting` must outlive the
/// tools.
std::vector<serve::McpTool> CommandTools(const McpSetting& setting);
/// review: language models review a kernel, if the server was started with any.
serve::McpTool ReviewTool(const McpSetting& setting);
/// task_list, task_show.
std::vector<serve::McpTool> TaskTools(const McpSetting& setting);
/// run_list, run_report, run_candidate: runs of `cupel optimize`.
std::vector<serve::McpTool> RunTools(const McpSetting& setting);
/// record: more of a call's result.
serve::McpTool RecordTool(const McpSetting& setting);

/// The resources: the guide, and each task.
Result<std::vector<serve::McpResource>> ListMcpResources(const McpSetting& setting);
Result<std::vector<serve::McpText>> ReadMcpResource(const McpSetting& setting,
                                                    const std::string& uri);

}  // namespace cupel::cli
