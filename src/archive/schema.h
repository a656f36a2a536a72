// The archive's schema and its migrations. docs/formats/archive.md describes the fields.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "archive/sqlite.h"

namespace cupel::archive {

/// SQLite's application_id of run files: "cupl".
inline constexpr int64_t kApplicationId = 0x6375706c;

struct Migration {
  int version;  // user_version after it is applied
  const char* sql;
};

/// One kind of file. Migrations are in order; a file of version v gets those above v.
struct Schema {
  int64_t application_id;
  std::span<const Migration> migrations;
  const char* what;      // "a cupel archive"
  const char* expected;  // remedy for a file of another kind
};

/// The schema of `cupel optimize` runs. See also SuiteSchema.
const Schema& RunSchema();
int CurrentVersion(const Schema& schema = RunSchema());

/// The file's version. Errors: the file is of another kind, or newer than this program.
Result<int> CheckFormat(const Database& database, const Schema& schema = RunSchema());

/// Brings a new or older file to the current version, in one transaction.
Status Migrate(Database& database, const Schema& schema = RunSchema());

}  // namespace cupel::archive
