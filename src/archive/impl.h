// What archive.cc (files), candidates.cc and records.cc (queries) share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "archive/archive.h"
#include "archive/file.h"
#include "archive/sqlite.h"

namespace cupel::archive {

struct Archive::Impl {
  Impl(Claim claimed, Database opened, std::string id)
      : claim(std::move(claimed)), database(std::move(opened)), run_id(std::move(id)) {}

  /// Outlives the database: closing any descriptor of the file drops SQLite's own locks on it.
  Claim claim;
  Database database;
  std::string run_id;
};

/// As a run's file has it; one whose process was killed is stopped.
RunStatus StatusOf(std::string_view stored, const Claim& claim);

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
