// SPDX-License-Identifier: Apache-2.0
#include "archive/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstring>

namespace cupel::archive {
namespace {

constexpr int kBusyMilliseconds = 10000;
constexpr int kMaxRowBytes = 64 << 20;

Error Explain(int code, int system_errno, const std::string& detail, std::string_view doing,
              const std::filesystem::path& file) {
  const std::string what = fmt::format("cannot {} {}: ", doing, file.string());
  switch (code & 0xff) {
    case SQLITE_FULL:
      return {ErrorCode::kIo, what + "the disk is full",
              "free some space, then resume: everything recorded so far is safe"};
    case SQLITE_IOERR:
      // SQLite reports only ENOSPC as full. Quotas and size limits appear as a failed write.
      if (system_errno == EDQUOT || system_errno == EFBIG || code == SQLITE_IOERR_WRITE) {
        return {
            ErrorCode::kIo,
            what + fmt::format("a write failed ({}): the disk is full, or a quota or size limit is "
                               "reached",
                               system_errno != 0 ? std::strerror(system_errno) : detail.c_str()),
            "free some space, then resume: everything recorded so far is safe"};
      }
      return {ErrorCode::kIo, what + detail, "check the disk and the permissions of the folder"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kIo, what + "another process has locked it",
              "wait for that process or end it, then try again"};
    case SQLITE_NOTADB:
      return {ErrorCode::kInvalidArgument, what + "it is not a cupel archive",
              "give a .cupel file that cupel wrote"};
    case SQLITE_CORRUPT:
      return {ErrorCode::kIo, what + "the file is damaged (" + detail + ")",
              "restore a copy, or recover its data with `sqlite3 FILE .recover`"};
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
      return {ErrorCode::kIo, what + detail, "check the permissions of the file and of its folder"};
    case SQLITE_CONSTRAINT:
      return {ErrorCode::kInvalidArgument, what + detail, ""};
    case SQLITE_TOOBIG:
      return {ErrorCode::kInvalidArgument, what + "a value is too large", ""};
    case SQLITE_NOMEM:
      return {ErrorCode::kEnvironment, what + "out of memory", ""};
    default:
      return {ErrorCode::kInternal, what + detail, ""};
  }
}

}  // namespace

void Database::Closer::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
void Statement::Finalizer::operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }

Result<Database> Database::Open(const std::filesystem::path& file, bool read_only) {
  sqlite3* handle = nullptr;
  const int flags =
      (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(file.c_str(), &handle, flags, nullptr);
  Database database(file, handle);  // closes the handle, also on failure
  if (code != SQLITE_OK) {
    if (handle == nullptr) return Fail(ErrorCode::kEnvironment, "out of memory");
    return tl::unexpected(database.LastError("open"));
  }
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kMaxRowBytes);
  // The file may be untrusted.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
  return database;
}

Status Database::Execute(const char* sql) {
  if (sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return tl::unexpected(LastError("write"));
  }
  return {};
}

Result<Statement> Database::Prepare(std::string_view sql) const {
  sqlite3_stmt* handle = nullptr;
  if (sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &handle,
                         nullptr) != SQLITE_OK) {
    return tl::unexpected(LastError("read"));
  }
  return Statement(this, handle);
}

int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(handle_.get()); }
int64_t Database::changes() const { return sqlite3_changes64(handle_.get()); }

Error Database::LastError(std::string_view doing) const {
  return Explain(sqlite3_extended_errcode(handle_.get()), sqlite3_system_errno(handle_.get()),
                 sqlite3_errmsg(handle_.get()), doing, file_);
}

void Statement::Note(int code) { bad_bind_ |= code != SQLITE_OK; }

Statement& Statement::Bind(int64_t value) {
  Note(sqlite3_bind_int64(handle_.get(), next_parameter_++, value));
  return *this;
}
Statement& Statement::Bind(double value) {
  Note(sqlite3_bind_double(handle_.get(), next_parameter_++, value));
  return *this;
}
Statement& Statement::Bind(std::string_view text) {
  // A null pointer would bind NULL instead of the empty text.
  Note(sqlite3_bind_text64(handle_.get(), next_parameter_++, text.data() ? text.data() : "",
                           text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}
Statement& Statement::BindBlob(std::string_view bytes) {
  Note(sqlite3_bind_blob64(handle_.get(), next_parameter_++, bytes.data() ? bytes.data() : "",
                           bytes.size(), SQLITE_TRANSIENT));
  return *this;
}
Statement& Statement::BindNull() {
  Note(sqlite3_bind_null(handle_.get(), next_parameter_++));
  return *this;
}

Result<bool> Statement::Next() {
  if (bad_bind_) return Fail(ErrorCode::kInternal, "a value could not be bound to its statement");
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return tl::unexpected(
      database_->LastError(sqlite3_stmt_readonly(handle_.get()) ? "read" : "write"));
}

Status Statement::Run() {
  TRY_ASSIGN(const bool row, Next());
  if (row) return Fail(ErrorCode::kInternal, "a statement returned unexpected rows");
  return {};
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(handle_.get(), column); }
double Statement::Double(int column) const { return sqlite3_column_double(handle_.get(), column); }
std::string Statement::Text(int column) const {
  const void* data = sqlite3_column_blob(handle_.get(), column);
  const int size = sqlite3_column_bytes(handle_.get(), column);
  return data ? std::string(static_cast<const char*>(data), static_cast<size_t>(size))
              : std::string();
}
bool Statement::IsNull(int column) const {
  return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL;
}
std::optional<int64_t> Statement::OptionalInt(int column) const {
  return IsNull(column) ? std::nullopt : std::optional<int64_t>(Int(column));
}
std::optional<double> Statement::OptionalDouble(int column) const {
  return IsNull(column) ? std::nullopt : std::optional<double>(Double(column));
}

Result<Transaction> Transaction::Begin(Database& database) {
  TRY(database.Execute("BEGIN IMMEDIATE"));
  return Transaction(&database);
}

Transaction::~Transaction() {
  // Fails harmlessly if SQLite has already rolled back, as on a full disk.
  if (database_ != nullptr) (void)database_->Execute("ROLLBACK");
}

Status Transaction::Commit() {
  TRY(database_->Execute("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace cupel::archive
