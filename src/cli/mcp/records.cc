// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp/records.h"

#include <fmt/format.h>

#include <utility>

#include "os/temp_dir.h"

namespace cupel::cli {
namespace {

constexpr size_t kMost = 256;

}  // namespace

Result<std::unique_ptr<McpRecords>> McpRecords::Create() {
  TRY_ASSIGN(os::TempDir root, os::TempDir::Create());
  return std::unique_ptr<McpRecords>(new McpRecords(std::move(root)));
}

Result<McpRecord> McpRecords::New() {
  const std::lock_guard lock(mutex_);
  TRY_ASSIGN(os::TempDir folder, os::TempDir::Create(root_.path()));
  McpRecord record{++last_, std::make_shared<const os::TempDir>(std::move(folder))};
  folders_[record.number] = record.folder;
  if (folders_.size() > kMost) folders_.erase(folders_.begin());
  return record;
}

Result<McpRecord> McpRecords::Find(int64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = folders_.find(number);
  if (found != folders_.end()) return McpRecord{number, found->second};
  return Fail(ErrorCode::kNotFound, fmt::format("there is no record {}", number),
              fmt::format("call the tool again; the server keeps the last {} records", kMost));
}

}  // namespace cupel::cli
