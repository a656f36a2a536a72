// What archive.cc (files), candidates.cc and records.cc (queries) share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "archive/archive.h"
#include "archive/sqlite.h"
#include "os/fd.h"

namespace cupel::archive {

struct Archive::Impl {
  Impl(os::Fd lock_fd, Database opened, std::string id)
      : lock(std::move(lock_fd)), database(std::move(opened)), run_id(std::move(id)) {}

  /// Outlives the database: closing any descriptor of the file drops SQLite's own locks on it.
  os::Fd lock;
  Database database;
  std::string run_id;
};

int64_t NowMs();

/// Fails when `text` exceeds kMaxBlobBytes.
Status Bounded(std::string_view text, std::string_view what);

/// Stores `bytes` under their SHA-256, once; returns it. Call within a transaction.
Result<std::string> PutBlob(Database& database, std::string_view bytes, std::string_view what);

/// Rows of the table `events`, which archives and suites have alike.
Status InsertEvent(Database& database, std::string_view kind, std::string_view detail_json);
Result<std::vector<Event>> SelectEvents(Database& database);

/// Replaces the run's state. Call within a transaction, or alone.
Status WriteState(Database& database, std::string_view json);

}  // namespace cupel::archive
