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

/// In order; a file of version v gets those above v.
std::span<const Migration> Migrations();
int CurrentVersion();

/// Fails unless the file is a cupel archive of a version that this program reads.
Result<int> CheckFormat(const Database& database);

/// Brings a new or older file to the current version, in one transaction.
Status Migrate(Database& database);

}  // namespace cupel::archive
