// Shared by archive.cc (files) and by candidates.cc, exchanges.cc and records.cc (queries).
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

  /// Must outlive the database: closing any descriptor of the file drops SQLite's locks on it.
  Claim claim;
  Database database;
  std::string run_id;
};

/// The status stored in a run's file. A running run without an owner is reported as stopped.
RunStatus StatusOf(std::string_view stored, const Claim& claim);

int64_t NowMs();

/// Fails when `text` exceeds kMaxBlobBytes.
Status Bounded(std::string_view text, std::string_view what);

/// Stores `bytes` under their SHA-256, once; returns it. Call within a transaction.
Result<std::string> PutBlob(Database& database, std::string_view bytes, std::string_view what);

/// Rows of the table `events`, which archives and suite stores both have.
Status InsertEvent(Database& database, std::string_view kind, std::string_view detail_json);
Result<std::vector<Event>> SelectEvents(Database& database);

/// Replaces the run's state. Call within a transaction, or alone.
Status WriteState(Database& database, std::string_view json);

}  // namespace cupel::archive
