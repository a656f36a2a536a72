// The tools of `cupel mcp`. Commands that judge run as children; tasks and runs are read here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/mcp_records.h"
#include "cli/options.h"
#include "serve/mcp_offer.h"

namespace cupel::cli {

/// What all calls share: how the server was started, and where it keeps records. Thread-safe.
struct McpSetting {
  Common common;  // device, model, python: of every command
  Compile compile;
  std::chrono::seconds limit{};  // of a call
  std::filesystem::path tasks;   // folder of the tasks
  std::unique_ptr<McpRecords> records;
  /// That review. What they cost stands in their transcript, so that the budget is that of all
  /// calls: one asks at a time.
  ModelOptions models;
  std::filesystem::path calibration;
  mutable std::timed_mutex asking;
};

/// Commands: check, build, bench, profile, extract, verify, doctor. `setting` outlives the tools.
std::vector<serve::McpTool> CommandTools(const McpSetting& setting);
/// review: language models read a kernel, where the server was started with some.
serve::McpTool ReviewTool(const McpSetting& setting);
/// task_list, task_show.
std::vector<serve::McpTool> TaskTools(const McpSetting& setting);
/// run_list, run_report, run_candidate: what `cupel optimize` left.
std::vector<serve::McpTool> RunTools(const McpSetting& setting);
/// record: more of what a call found.
serve::McpTool RecordTool(const McpSetting& setting);

/// The guide, and each task.
Result<std::vector<serve::McpResource>> ListMcpResources(const McpSetting& setting);
Result<std::vector<serve::McpText>> ReadMcpResource(const McpSetting& setting,
                                                    const std::string& uri);

}  // namespace cupel::cli
