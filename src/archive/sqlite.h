// Owning types for SQLite's C interface: Database, Statement, Transaction. For use in this folder
// only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace cupel::archive {

class Statement;

/// An open database file. Move-only; closes on destruction. Not thread-safe.
class Database {
 public:
  static Result<Database> Open(const std::filesystem::path& file, bool read_only);
  Database(Database&&) noexcept = default;
  Database& operator=(Database&&) noexcept = default;

  /// Runs statements that return nothing.
  Status Execute(const char* sql);
  Result<Statement> Prepare(std::string_view sql) const;
  int64_t last_insert_id() const;
  /// The number of rows that the last INSERT, UPDATE or DELETE changed.
  int64_t changes() const;
  /// The latest failure of this connection as an Error for the user, with a remedy.
  Error LastError(std::string_view doing) const;
  const std::filesystem::path& file() const { return file_; }

 private:
  struct Closer {
    void operator()(sqlite3* handle) const;
  };
  Database(std::filesystem::path file, sqlite3* handle) : file_(std::move(file)), handle_(handle) {}
  std::filesystem::path file_;
  std::unique_ptr<sqlite3, Closer> handle_;
};

/// A prepared statement. Bind parameters in order, then Next() until false.
class Statement {
 public:
  Statement(Statement&&) noexcept = default;
  Statement& operator=(Statement&&) noexcept = default;

  Statement& Bind(int64_t value);
  Statement& Bind(int value) { return Bind(static_cast<int64_t>(value)); }
  Statement& Bind(double value);
  Statement& Bind(std::string_view text);
  Statement& Bind(const char* text) { return Bind(std::string_view(text)); }
  Statement& BindBlob(std::string_view bytes);
  Statement& BindNull();
  template <typename T>
  Statement& Bind(const std::optional<T>& value) {
    return value ? Bind(*value) : BindNull();
  }

  /// True if there is a row.
  Result<bool> Next();
  /// Runs a statement that returns no rows.
  Status Run();

  int64_t Int(int column) const;
  double Double(int column) const;
  std::string Text(int column) const;  // also of blobs
  bool IsNull(int column) const;
  std::optional<int64_t> OptionalInt(int column) const;
  std::optional<double> OptionalDouble(int column) const;

 private:
  friend class Database;
  struct Finalizer {
    void operator()(sqlite3_stmt* handle) const;
  };
  Statement(const Database* database, sqlite3_stmt* handle)
      : database_(database), handle_(handle) {}
  void Note(int code);

  const Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalizer> handle_;
  int next_parameter_ = 1;
  bool bad_bind_ = false;
};

/// BEGIN IMMEDIATE … COMMIT; rolls back unless committed.
class Transaction {
 public:
  static Result<Transaction> Begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status Commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace cupel::archive
