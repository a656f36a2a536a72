// SPDX-License-Identifier: Apache-2.0
#include "archive/schema.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace cupel::archive {
namespace {

// Never edit a released migration: append a new one.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE blobs (
  sha256 TEXT PRIMARY KEY CHECK (length(sha256) = 64),
  bytes BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  direction TEXT NOT NULL CHECK (direction IN ('forward', 'backward')),
  sha256 TEXT NOT NULL,
  UNIQUE (name, direction, sha256)
) STRICT;

CREATE TABLE runs (
  id TEXT PRIMARY KEY,
  task INTEGER NOT NULL REFERENCES tasks (id),
  status TEXT NOT NULL CHECK (status IN ('running', 'stopped', 'finished', 'failed')),
  cupel_version TEXT NOT NULL,
  command TEXT NOT NULL CHECK (json_valid(command) AND json_type(command) = 'array'),
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  seed TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'null' CHECK (json_valid(state)),
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE candidates (
  id INTEGER PRIMARY KEY,
  run TEXT NOT NULL REFERENCES runs (id),
  generation INTEGER NOT NULL CHECK (generation >= 0),
  source TEXT NOT NULL REFERENCES blobs (sha256),
  proposer TEXT NOT NULL,
  description TEXT NOT NULL,
  tunables TEXT NOT NULL CHECK (json_valid(tunables) AND json_type(tunables) = 'object'),
  status TEXT NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'evaluating', 'done')),
  created_ms INTEGER NOT NULL,
  UNIQUE (run, source)
) STRICT;
CREATE INDEX candidates_by_status ON candidates (status, id);

CREATE TABLE lineage (
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  position INTEGER NOT NULL,
  parent INTEGER NOT NULL REFERENCES candidates (id) CHECK (parent < candidate),
  PRIMARY KEY (candidate, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE verdicts (
  id INTEGER PRIMARY KEY,
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  decision TEXT NOT NULL CHECK (decision IN ('accepted', 'rejected', 'unsupported', 'error')),
  json TEXT NOT NULL CHECK (json_valid(json)),
  objective REAL CHECK (objective IS NULL OR decision = 'accepted'),
  objective_kind TEXT NOT NULL,
  fresh_cases INTEGER NOT NULL CHECK (fresh_cases IN (0, 1)),
  created_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX verdicts_by_candidate ON verdicts (candidate, id);

CREATE TABLE samples (
  verdict INTEGER NOT NULL REFERENCES verdicts (id),
  setting TEXT NOT NULL,
  clock TEXT NOT NULL,
  subject TEXT NOT NULL,
  position INTEGER NOT NULL,
  us REAL NOT NULL,
  PRIMARY KEY (verdict, setting, clock, subject, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE conversations (
  id INTEGER PRIMARY KEY,
  candidate INTEGER REFERENCES candidates (id),
  role TEXT NOT NULL,
  model TEXT NOT NULL,
  prompt TEXT NOT NULL REFERENCES blobs (sha256),
  answer TEXT NOT NULL REFERENCES blobs (sha256),
  parameters TEXT NOT NULL CHECK (json_valid(parameters) AND json_type(parameters) = 'object'),
  created_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE costs (
  id INTEGER PRIMARY KEY,
  candidate INTEGER REFERENCES candidates (id),
  kind TEXT NOT NULL,
  detail TEXT NOT NULL,
  input_tokens INTEGER NOT NULL CHECK (input_tokens >= 0),
  output_tokens INTEGER NOT NULL CHECK (output_tokens >= 0),
  seconds REAL NOT NULL,
  usd REAL NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  detail TEXT NOT NULL CHECK (json_valid(detail) AND json_type(detail) = 'object'),
  created_ms INTEGER NOT NULL
) STRICT;

-- What selection looks at: each candidate with its latest verdict.
CREATE VIEW standing AS
  SELECT c.id AS candidate, v.id AS verdict, v.decision, v.objective
  FROM candidates c
  LEFT JOIN verdicts v ON v.id = (SELECT max(id) FROM verdicts WHERE candidate = c.id);
)sql";

// Version 1 had a table for conversations that was never written.
constexpr const char* kVersion2 = R"sql(
DROP TABLE conversations;
CREATE TABLE exchanges (
  id INTEGER PRIMARY KEY,
  candidate INTEGER REFERENCES candidates (id),
  role TEXT NOT NULL,
  model TEXT NOT NULL,
  hash TEXT NOT NULL,
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  request TEXT NOT NULL REFERENCES blobs (sha256),
  worst_tokens INTEGER NOT NULL,
  worst_nano_usd INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  answer TEXT REFERENCES blobs (sha256),
  error TEXT,
  input_tokens INTEGER,
  output_tokens INTEGER,
  charged_tokens INTEGER,
  charged_nano_usd INTEGER,
  seconds REAL
) STRICT;
CREATE INDEX exchanges_by_hash ON exchanges (hash);

CREATE TABLE stages (
  id INTEGER PRIMARY KEY,
  candidate INTEGER NOT NULL REFERENCES candidates (id),
  name TEXT NOT NULL,
  passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
  detail TEXT NOT NULL CHECK (json_valid(detail) AND json_type(detail) = 'object'),
  seconds REAL NOT NULL
) STRICT;
CREATE INDEX stages_by_candidate ON stages (candidate, id);

ALTER TABLE candidates ADD COLUMN meta TEXT NOT NULL DEFAULT '{}'
  CHECK (json_valid(meta) AND json_type(meta) = 'object');
)sql";

constexpr std::array kMigrations = {Migration{1, kVersion1}, Migration{2, kVersion2}};

Result<int64_t> Pragma(const Database& database, const char* sql) {
  TRY_ASSIGN(Statement statement, database.Prepare(sql));
  TRY_ASSIGN(const bool row, statement.Next());
  return row ? statement.Int(0) : 0;
}

}  // namespace

const Schema& RunSchema() {
  static constexpr Schema kSchema = {kApplicationId, kMigrations, "a cupel archive",
                                     "give a .cupel file that cupel wrote"};
  return kSchema;
}

int CurrentVersion(const Schema& schema) { return schema.migrations.back().version; }

Result<int> CheckFormat(const Database& database, const Schema& schema) {
  TRY_ASSIGN(const int64_t application, Pragma(database, "PRAGMA application_id"));
  TRY_ASSIGN(const int64_t version, Pragma(database, "PRAGMA user_version"));
  if (application != schema.application_id) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot open {}: it is not {}", database.file().string(), schema.what),
                schema.expected);
  }
  if (version > CurrentVersion(schema)) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("cannot open {}: it has format {}, this cupel reads up to {}",
                            database.file().string(), version, CurrentVersion(schema)),
                "use the newer cupel that wrote it");
  }
  return static_cast<int>(version);
}

Status Migrate(Database& database, const Schema& schema) {
  TRY_ASSIGN(auto transaction, Transaction::Begin(database));
  // Read inside the transaction: another process may have migrated meanwhile.
  TRY_ASSIGN(const int64_t version, Pragma(database, "PRAGMA user_version"));
  for (const Migration& migration : schema.migrations) {
    if (migration.version <= version) continue;
    TRY(database.Execute(migration.sql));
    TRY(database.Execute(fmt::format("PRAGMA user_version = {}", migration.version).c_str()));
  }
  TRY(database.Execute(fmt::format("PRAGMA application_id = {}", schema.application_id).c_str()));
  return transaction.Commit();
}

}  // namespace cupel::archive
