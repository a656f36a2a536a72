// SPDX-License-Identifier: Apache-2.0
#include "archive/archive.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "archive/impl.h"
#include "archive/schema.h"

namespace cupel::archive {
namespace {

namespace fs = std::filesystem;

Status CheckRun(const NewRun& run) {
  const auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (run.id.empty() || run.id.size() > 128 || run.id.front() == '.' ||
      !std::all_of(run.id.begin(), run.id.end(), legal)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\" cannot name a run", run.id.substr(0, 128)),
                "use letters, digits, '-', '_' and '.'");
  }
  TRY(Bounded(run.command, "the command"));
  return Bounded(run.config, "the configuration");
}

Error OpenError(const fs::path& file, int code) {
  return {
      code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
      fmt::format("cannot open {}: {}", file.string(), std::strerror(code)),
      code == ENOENT ? "check the run's name" : "check the permissions of the file and its folder"};
}

/// Opens a regular file and, for an owner, locks it. The lock is flock's, which SQLite's own locks
/// (fcntl) do not meet; it ends with the process, however that ends.
Result<os::Fd> Claim(const fs::path& file, Access access) {
  const bool owner = access == Access::kOwner;
  os::Fd fd(::open(file.c_str(), (owner ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
  const int code = errno;
  struct stat info {};
  if (!fd && code != EISDIR) return tl::unexpected(OpenError(file, code));
  if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot open {}: it is not a regular file", file.string()));
  }
  if (owner && flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot open {}: another cupel is working on this run", file.string()),
                "wait for it or end it");
  }
  return fd;
}

/// Removes what an unfinished Create leaves.
class Partial {
 public:
  explicit Partial(fs::path path) : path_(std::move(path)) { Remove(); }
  ~Partial() { Remove(); }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  const fs::path& path() const { return path_; }

 private:
  void Remove() const {
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      fs::remove(path_.string() + suffix, ignored);
    }
  }
  fs::path path_;
};

Status InsertRun(Database& database, const NewRun& run) {
  const int64_t now = NowMs();
  TRY_ASSIGN(auto transaction, Transaction::Begin(database));
  TRY_ASSIGN(Statement task,
             database.Prepare("INSERT INTO tasks (name, direction, sha256) VALUES (?, ?, ?)"));
  TRY(task.Bind(run.task).Bind(run.direction).Bind(run.task_hash).Run());
  TRY_ASSIGN(Statement insert,
             database.Prepare("INSERT INTO runs (id, task, status, cupel_version, "
                              "command, config, seed, created_ms, updated_ms) "
                              "VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?)"));
  TRY(insert.Bind(run.id)
          .Bind(database.last_insert_id())
          .Bind(run.cupel_version)
          .Bind(run.command)
          .Bind(run.config)
          .Bind(std::to_string(run.seed))
          .Bind(now)
          .Bind(now)
          .Run());
  return transaction.Commit();
}

Status WriteNew(const fs::path& path, const NewRun& run) {
  TRY_ASSIGN(Database database, Database::Open(path, false));
  TRY(Migrate(database));
  TRY(InsertRun(database, run));
  // Remembered by the file. Closing the only connection then leaves everything in the one file.
  return database.Execute("PRAGMA journal_mode = WAL");
}

/// A file from elsewhere may hold no run or several: neither is ours.
Result<std::string> OnlyRunId(const Database& database) {
  TRY_ASSIGN(Statement select, database.Prepare("SELECT id FROM runs LIMIT 2"));
  TRY_ASSIGN(const bool first, select.Next());
  std::string id = first ? select.Text(0) : "";
  TRY_ASSIGN(const bool second, select.Next());
  if (!first || second) {
    return Fail(
        ErrorCode::kIo,
        fmt::format("cannot open {}: it does not hold exactly one run", database.file().string()),
        "name a .cupel file that cupel wrote");
  }
  return id;
}

Error Exists(const fs::path& file) {
  return {ErrorCode::kInvalidArgument, fmt::format("{} exists already", file.string()),
          "resume it, or choose another name"};
}

}  // namespace

int64_t NowMs() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             system_clock::now().time_since_epoch())
      .count();
}

Status Bounded(std::string_view text, std::string_view what) {
  if (text.size() <= kMaxBlobBytes) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is too large for the archive: {} bytes, at most {}", what,
                          text.size(), kMaxBlobBytes));
}

Result<Archive> Archive::Create(const fs::path& file, const NewRun& run) {
  TRY(CheckRun(run));
  std::error_code code;
  if (fs::exists(fs::symlink_status(file, code))) return tl::unexpected(Exists(file));
  if (file.has_parent_path()) {
    fs::create_directories(file.parent_path(), code);
    if (code) return tl::unexpected(OpenError(file.parent_path(), code.value()));
  }
  const Partial partial(file.parent_path() /
                        fmt::format(".{}.{}.partial", file.filename().string(), getpid()));
  TRY(WriteNew(partial.path(), run));
  if (renameat2(AT_FDCWD, partial.path().c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) return tl::unexpected(Exists(file));
    // Some file systems know no RENAME_NOREPLACE; a hard link does not replace either.
    if (errno != EINVAL || link(partial.path().c_str(), file.c_str()) != 0) {
      return tl::unexpected(OpenError(file, errno));
    }
  }
  return Open(file, Access::kOwner);
}

Result<Archive> Archive::Open(const fs::path& file, Access access) {
  TRY_ASSIGN(os::Fd lock, Claim(file, access));
  TRY_ASSIGN(Database database, Database::Open(file, access == Access::kReadOnly));
  TRY_ASSIGN(const int version, CheckFormat(database));
  if (access == Access::kOwner) {
    // NORMAL: a killed process loses nothing, a power cut at most the last transactions.
    TRY(database.Execute("PRAGMA synchronous = NORMAL"));
    if (version < CurrentVersion()) TRY(Migrate(database));
  } else if (version < CurrentVersion()) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("cannot read {}: it has the older format {}", file.string(), version),
                "resume the run once: that brings it up to date");
  }
  TRY_ASSIGN(std::string run_id, OnlyRunId(database));
  return Archive(std::make_unique<Impl>(std::move(lock), std::move(database), std::move(run_id)));
}

Archive::Archive(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Archive::Archive(Archive&&) noexcept = default;
Archive& Archive::operator=(Archive&&) noexcept = default;
Archive::~Archive() = default;

Status Archive::Verify() const {
  TRY_ASSIGN(Statement integrity, impl_->database.Prepare("PRAGMA integrity_check(1)"));
  TRY_ASSIGN(const bool row, integrity.Next());
  if (const std::string problem = row ? integrity.Text(0) : "no answer"; problem != "ok") {
    return Fail(ErrorCode::kIo,
                fmt::format("{} is damaged: {}", impl_->database.file().string(), problem),
                "restore a copy, or salvage what is left with `sqlite3 FILE .recover`");
  }
  TRY_ASSIGN(Statement keys, impl_->database.Prepare("PRAGMA foreign_key_check"));
  TRY_ASSIGN(const bool broken, keys.Next());
  if (broken) {
    return Fail(ErrorCode::kIo, fmt::format("{} is damaged: a row of {} refers to nothing",
                                            impl_->database.file().string(), keys.Text(0)));
  }
  return {};
}

Result<std::vector<RunSummary>> ListRuns(const fs::path& folder) {
  std::vector<RunSummary> runs;
  std::error_code code;
  if (!fs::exists(folder, code)) return runs;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    const fs::path& file = it->path();
    if (file.extension() != kExtension || file.filename().string().front() == '.') continue;
    RunSummary summary;
    summary.file = file;
    const auto read = [&]() -> Status {
      TRY_ASSIGN(const Archive archive, Archive::Open(file, Access::kReadOnly));
      TRY_ASSIGN(summary.run, archive.Run());
      TRY_ASSIGN(summary.counts, archive.Count());
      TRY_ASSIGN(const auto best, archive.Best());
      if (best) summary.best_objective = best->objective;
      return {};
    };
    if (const Status status = read(); !status) summary.problem = status.error().message;
    runs.push_back(std::move(summary));
  }
  if (code) {
    return Fail(ErrorCode::kIo, fmt::format("cannot list {}: {}", folder.string(), code.message()));
  }
  std::sort(runs.begin(), runs.end(), [](const RunSummary& a, const RunSummary& b) {
    if (a.run.created_ms != b.run.created_ms) return a.run.created_ms > b.run.created_ms;
    return a.file < b.file;
  });
  return runs;
}

}  // namespace cupel::archive
