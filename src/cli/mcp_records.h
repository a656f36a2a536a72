// The folders in which an MCP server keeps what its calls were given and what came of them: each
// has a number, under which later calls can ask for more of it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/result.h"
#include "os/fd.h"

namespace cupel::cli {

struct McpRecord {
  int64_t number = 0;
  std::shared_ptr<const os::TempDir> folder;  // lives as long as somebody holds it

  /// What the call found, as JSON.
  std::filesystem::path Document() const { return folder->path() / "record.json"; }
};

/// Thread-safe. Private to this user; removed with this object.
class McpRecords {
 public:
  static Result<std::unique_ptr<McpRecords>> Create();
  /// The oldest goes when there are 256.
  Result<McpRecord> New();
  Result<McpRecord> Find(int64_t number) const;
  /// Private and removed at the end; for what is of no single call.
  const std::filesystem::path& folder() const { return root_.path(); }

 private:
  explicit McpRecords(os::TempDir root) : root_(std::move(root)) {}

  os::TempDir root_;
  mutable std::mutex mutex_;
  int64_t last_ = 0;
  std::map<int64_t, std::shared_ptr<const os::TempDir>> folders_;
};

}  // namespace cupel::cli
