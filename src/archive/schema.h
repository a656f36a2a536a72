// The archive's schema and its migrations. docs/formats/archive.md says what the fields mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "archive/sqlite.h"

namespace cupel::archive {

/// SQLite's application_id of our files: "cupl".
inline constexpr int64_t kApplicationId = 0x6375706c;

struct Migration {
  int version;  // user_version once it is applied
  const char* sql;
};

/// One kind of file. Migrations in order; a file of version v gets those above v.
struct Schema {
  int64_t application_id;
  std::span<const Migration> migrations;
  const char* what;      // "a cupel archive"
  const char* expected;  // what to name instead of a file that is none
};

/// That of runs of `cupel optimize`; suite_store.cc has the other.
const Schema& RunSchema();
int CurrentVersion(const Schema& schema = RunSchema());

/// Fails unless the file is of this kind, and of a version that this program reads.
Result<int> CheckFormat(const Database& database, const Schema& schema = RunSchema());

/// Brings a new or older file to the current version, in one transaction.
Status Migrate(Database& database, const Schema& schema = RunSchema());

}  // namespace cupel::archive
