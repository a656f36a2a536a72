// SPDX-License-Identifier: Apache-2.0
#include "archive/suite_schema.h"

#include <array>

namespace cupel::archive {
namespace {

/// "cups": distinguishes suite stores from archives of `cupel optimize`.
constexpr int64_t kSuiteApplicationId = 0x63757073;

// Never edit a released migration: append a new one.
constexpr const char* kSuiteVersion1 = R"sql(
CREATE TABLE suites (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  status TEXT NOT NULL CHECK (status IN ('running', 'stopped', 'finished', 'failed')),
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  listing TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(listing) AND json_type(listing) = 'object'),
  cupel_version TEXT NOT NULL,
  seed TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE items (
  id TEXT PRIMARY KEY,
  position INTEGER NOT NULL,
  task TEXT NOT NULL,
  direction TEXT NOT NULL CHECK (direction IN ('forward', 'backward')),
  kernel TEXT NOT NULL,
  task_path TEXT NOT NULL,
  kernel_path TEXT NOT NULL,
  task_sha256 TEXT NOT NULL,
  source_sha256 TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX items_by_position ON items (position);

CREATE TABLE outcomes (
  item TEXT PRIMARY KEY REFERENCES items (id) ON DELETE CASCADE,
  decision TEXT NOT NULL CHECK (decision IN ('accepted', 'rejected', 'unsupported', 'error')),
  verdict TEXT CHECK (verdict IS NULL OR json_valid(verdict)),
  bench TEXT CHECK (bench IS NULL OR json_valid(bench)),
  error TEXT NOT NULL,
  remedy TEXT NOT NULL,
  worker TEXT NOT NULL,
  cases TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  seconds REAL NOT NULL,
  created_ms INTEGER NOT NULL,
  CHECK (verdict IS NOT NULL OR decision = 'error')
) STRICT;

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  detail TEXT NOT NULL CHECK (json_valid(detail) AND json_type(detail) = 'object'),
  created_ms INTEGER NOT NULL
) STRICT;
)sql";

constexpr const char* kSuiteVersion2 = R"sql(
CREATE TABLE judged (
  item TEXT PRIMARY KEY REFERENCES items (id) ON DELETE CASCADE,
  verdict TEXT NOT NULL CHECK (json_valid(verdict)),
  device TEXT NOT NULL,
  cases TEXT NOT NULL,
  seconds REAL NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;
)sql";

// Times are deleted together with their verdict.
constexpr const char* kSuiteVersion3 = R"sql(
CREATE TABLE timed (
  item TEXT NOT NULL REFERENCES judged (item) ON DELETE CASCADE,
  setting TEXT NOT NULL,
  bench TEXT NOT NULL CHECK (json_valid(bench)),
  seconds REAL NOT NULL,
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (item, setting)
) STRICT;
)sql";

constexpr std::array kSuiteMigrations = {Migration{1, kSuiteVersion1}, Migration{2, kSuiteVersion2},
                                         Migration{3, kSuiteVersion3}};

}  // namespace

const Schema& SuiteSchema() {
  static constexpr Schema kSchema = {kSuiteApplicationId, kSuiteMigrations,
                                     "the store of a suite run",
                                     "give the folder that cupel suite run wrote"};
  return kSchema;
}

}  // namespace cupel::archive
