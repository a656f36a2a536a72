// The folders in which an MCP server stores the inputs and results of its calls. Each has a number,
// with which later calls can request more of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/result.h"
#include "os/temp_dir.h"

namespace cupel::cli {

struct McpRecord {
  int64_t number = 0;
  std::shared_ptr<const os::TempDir> folder;  // removed with its last owner

  /// The result of the call, as JSON.
  std::filesystem::path Document() const { return folder->path() / "record.json"; }
};

/// Thread-safe. The folders are private to this user and are removed with this object.
class McpRecords {
 public:
  static Result<std::unique_ptr<McpRecords>> Create();
  /// Creates a record. At most 256 are kept; the oldest is dropped first.
  Result<McpRecord> New();
  Result<McpRecord> Find(int64_t number) const;
  /// The parent folder, for files that do not belong to a single call. Also private and removed.
  const std::filesystem::path& folder() const { return root_.path(); }

 private:
  explicit McpRecords(os::TempDir root) : root_(std::move(root)) {}

  os::TempDir root_;
  mutable std::mutex mutex_;
  int64_t last_ = 0;
  std::map<int64_t, std::shared_ptr<const os::TempDir>> folders_;
};

}  // namespace cupel::cli
