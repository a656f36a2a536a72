// SPDX-License-Identifier: Apache-2.0
#include "archive/archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "archive/file.h"
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
                fmt::format("\"{}\" is not a valid name of a run", run.id.substr(0, 128)),
                "use letters, digits, '-', '_' and '.'");
  }
  TRY(Bounded(run.command, "the command"));
  return Bounded(run.config, "the configuration");
}

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
  // WAL mode is stored in the file. Closing the only connection then merges everything into it.
  return database.Execute("PRAGMA journal_mode = WAL");
}

/// A file that cupel did not write may contain no run or several, which is an Error.
Result<std::string> OnlyRunId(const Database& database) {
  TRY_ASSIGN(Statement select, database.Prepare("SELECT id FROM runs LIMIT 2"));
  TRY_ASSIGN(const bool first, select.Next());
  std::string id = first ? select.Text(0) : "";
  TRY_ASSIGN(const bool second, select.Next());
  if (!first || second) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot open {}: it does not contain exactly one run",
                            database.file().string()),
                "give a .cupel file that cupel wrote");
  }
  return id;
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
  TRY(CreateAtomically(file, [&](const fs::path& path) { return WriteNew(path, run); }));
  return Open(file, Access::kOwner);
}

Result<Archive> Archive::Open(const fs::path& file, Access access) {
  TRY_ASSIGN(Claim claim, Claim::Make(file, access));
  TRY_ASSIGN(Database database, Database::Open(file, access == Access::kReadOnly));
  TRY_ASSIGN(const int version, CheckFormat(database));
  if (access == Access::kOwner) {
    // Answers of language models cost money, so they must survive a power cut.
    TRY(database.Execute("PRAGMA synchronous = FULL"));
    if (version < CurrentVersion()) TRY(Migrate(database));
  } else if (version < CurrentVersion()) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("cannot read {}: it has the older format {}", file.string(), version),
                "resume the run once to update the format");
  }
  TRY_ASSIGN(std::string run_id, OnlyRunId(database));
  return Archive(std::make_unique<Impl>(std::move(claim), std::move(database), std::move(run_id)));
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
                "restore a copy, or recover its data with `sqlite3 FILE .recover`");
  }
  TRY_ASSIGN(Statement keys, impl_->database.Prepare("PRAGMA foreign_key_check"));
  TRY_ASSIGN(const bool broken, keys.Next());
  if (broken) {
    return Fail(ErrorCode::kIo,
                fmt::format("{} is damaged: a row of {} refers to a row that does not exist",
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
