// SPDX-License-Identifier: Apache-2.0
#include "archive/suite_store.h"

#include <fmt/format.h>

#include <map>

#include "archive/file.h"
#include "archive/impl.h"
#include "archive/suite_schema.h"
#include "base/parse_number.h"

namespace cupel::archive {

namespace fs = std::filesystem;

struct SuiteStore::Impl {
  Claim claim;  // outlives the database: see Archive::Impl
  Database database;
  int version = 0;  // of its schema; a file opened read-only may be from an older cupel
};

namespace {

// Versions of the schema.
constexpr int kWithVerdicts = 2, kWithTimes = 3;

constexpr const char* kItemColumns =
    "id, task, direction, kernel, task_path, kernel_path, task_sha256, source_sha256";

SuiteItem ReadItem(const Statement& row) {
  return {row.Text(0), row.Text(1), row.Text(2), row.Text(3),
          row.Text(4), row.Text(5), row.Text(6), row.Text(7)};
}

Status WriteNew(const fs::path& path, const NewSuite& suite) {
  TRY_ASSIGN(Database database, Database::Open(path, false));
  TRY(Migrate(database, SuiteSchema()));
  TRY_ASSIGN(Statement insert,
             database.Prepare("INSERT INTO suites (id, status, config, cupel_version, seed, "
                              "created_ms, updated_ms) VALUES (1, 'running', ?, ?, ?, ?, ?)"));
  const int64_t now = NowMs();
  TRY(insert.Bind(suite.config)
          .Bind(suite.cupel_version)
          .Bind(std::to_string(suite.seed))
          .Bind(now)
          .Bind(now)
          .Run());
  return database.Execute("PRAGMA journal_mode = WAL");
}

Result<std::vector<SuiteItem>> Select(const Database& database, const char* rest) {
  TRY_ASSIGN(Statement select,
             database.Prepare(fmt::format("SELECT {} FROM items {}", kItemColumns, rest)));
  std::vector<SuiteItem> items;
  while (true) {
    TRY_ASSIGN(const bool row, select.Next());
    if (!row) return items;
    items.push_back(ReadItem(select));
  }
}

Status Erase(const Database& database, const char* sql, std::string_view id) {
  TRY_ASSIGN(Statement erase, database.Prepare(sql));
  return erase.Bind(id).Run();
}

Status Insert(const Database& database, const SuiteItem& item, int64_t position) {
  TRY_ASSIGN(Statement insert,
             database.Prepare(fmt::format(
                 "INSERT INTO items ({}, position) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
                 "ON CONFLICT (id) DO UPDATE SET task = excluded.task, direction = "
                 "excluded.direction, kernel = excluded.kernel, task_path = excluded.task_path, "
                 "kernel_path = excluded.kernel_path, task_sha256 = excluded.task_sha256, "
                 "source_sha256 = excluded.source_sha256, position = excluded.position",
                 kItemColumns)));
  return insert.Bind(item.id)
      .Bind(item.task)
      .Bind(item.direction)
      .Bind(item.kernel)
      .Bind(item.task_path)
      .Bind(item.kernel_path)
      .Bind(item.task_sha256)
      .Bind(item.source_sha256)
      .Bind(position)
      .Run();
}

}  // namespace

SuiteStore::SuiteStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SuiteStore::SuiteStore(SuiteStore&&) noexcept = default;
SuiteStore& SuiteStore::operator=(SuiteStore&&) noexcept = default;
SuiteStore::~SuiteStore() = default;

Result<SuiteStore> SuiteStore::Create(const fs::path& file, const NewSuite& suite) {
  TRY(Bounded(suite.config, "the configuration"));
  TRY(CreateAtomically(file, [&](const fs::path& path) { return WriteNew(path, suite); }));
  return Open(file, Access::kOwner);
}

Result<SuiteStore> SuiteStore::Open(const fs::path& file, Access access) {
  TRY_ASSIGN(Claim claim, Claim::Make(file, access));
  TRY_ASSIGN(Database database, Database::Open(file, access == Access::kReadOnly));
  TRY_ASSIGN(const int version, CheckFormat(database, SuiteSchema()));
  if (access == Access::kOwner) {
    // NORMAL: a killed process loses nothing; a power cut loses at most the last transactions.
    TRY(database.Execute("PRAGMA synchronous = NORMAL"));
    if (version < CurrentVersion(SuiteSchema())) TRY(Migrate(database, SuiteSchema()));
  }
  const int now = access == Access::kOwner ? CurrentVersion(SuiteSchema()) : version;
  return SuiteStore(std::make_unique<Impl>(Impl{std::move(claim), std::move(database), now}));
}

Result<SuiteInfo> SuiteStore::Info() const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare("SELECT config, cupel_version, seed, status, listing, "
                                     "created_ms, updated_ms FROM suites"));
  TRY_ASSIGN(const bool row, select.Next());
  SuiteInfo info;
  const auto seed = ParseNumber<uint64_t>(row ? select.Text(2) : "");
  info.seed = seed.value_or(0);
  if (!seed) {
    return Fail(ErrorCode::kIo,
                fmt::format("{} is damaged: the description of the run is missing or invalid",
                            impl_->database.file().string()),
                "restore a copy, or start the run again in another folder");
  }
  info.config = select.Text(0);
  info.cupel_version = select.Text(1);
  info.status = StatusOf(select.Text(3), impl_->claim);
  info.listing = select.Text(4);
  info.created_ms = select.Int(5);
  info.updated_ms = select.Int(6);
  return info;
}

Status SuiteStore::SetStatus(RunStatus status) {
  TRY_ASSIGN(Statement update,
             impl_->database.Prepare("UPDATE suites SET status = ?, updated_ms = ?"));
  return update.Bind(Name(status)).Bind(NowMs()).Run();
}

Result<SuiteStore::Relisted> SuiteStore::SetItems(std::span<const SuiteItem> items,
                                                  std::string_view listing) {
  TRY(Bounded(listing, "the listing"));
  Relisted relisted;
  TRY_ASSIGN(auto transaction, Transaction::Begin(impl_->database));
  TRY_ASSIGN(const std::vector<SuiteItem> before, Items());
  std::map<std::string, const SuiteItem*> known;
  for (const SuiteItem& item : before) known[item.id] = &item;
  int64_t position = 0;
  for (const SuiteItem& item : items) {
    if (const auto old = known.find(item.id); old != known.end()) {
      const bool kernel = old->second->source_sha256 != item.source_sha256;
      const bool task = old->second->task_sha256 != item.task_sha256;
      if (kernel) relisted.changed_kernels.push_back(item.id);
      if (task) relisted.changed_tasks.push_back(item.id);
      if (kernel || task) {
        TRY(Erase(impl_->database, "DELETE FROM outcomes WHERE item = ?", item.id));
        TRY(DropVerdict(item.id));
      }
      known.erase(old);
    }
    TRY(Insert(impl_->database, item, position++));
  }
  for (const auto& [id, item] : known) {
    relisted.removed.push_back(id);
    TRY(Erase(impl_->database, "DELETE FROM items WHERE id = ?", id));
  }
  TRY_ASSIGN(Statement update,
             impl_->database.Prepare("UPDATE suites SET listing = ?, updated_ms = ?"));
  TRY(update.Bind(listing).Bind(NowMs()).Run());
  TRY(transaction.Commit());
  return relisted;
}

Result<std::vector<SuiteItem>> SuiteStore::Items() const {
  return Select(impl_->database, "ORDER BY position");
}

Result<std::vector<SuiteItem>> SuiteStore::Pending() const {
  return Select(impl_->database,
                "WHERE id NOT IN (SELECT item FROM outcomes WHERE decision IS NOT 'error') "
                "ORDER BY position");
}

Result<SuiteCounts> SuiteStore::Count() const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare(
                 "SELECT count(*), count(o.item), sum(o.decision IS 'accepted'), "
                 "sum(o.decision IS 'rejected'), sum(o.decision IS 'unsupported'), "
                 "sum(o.decision IS 'error') FROM items i LEFT JOIN outcomes o ON o.item = i.id"));
  TRY_ASSIGN(const bool row, select.Next());
  SuiteCounts counts;
  if (!row) return counts;
  counts.total = select.Int(0);
  counts.done = select.Int(1);
  counts.accepted = select.Int(2);
  counts.rejected = select.Int(3);
  counts.unsupported = select.Int(4);
  counts.error = select.Int(5);
  return counts;
}

Result<std::vector<SuiteTime>> SuiteStore::Times() const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare("SELECT i.task, i.direction, o.seconds FROM items i "
                                     "JOIN outcomes o ON o.item = i.id WHERE o.verdict IS NOT NULL "
                                     "ORDER BY i.position"));
  std::vector<SuiteTime> times;
  for (;;) {
    TRY_ASSIGN(const bool row, select.Next());
    if (!row) return times;
    times.push_back({select.Text(0), select.Text(1), select.Double(2)});
  }
}

Status SuiteStore::RecordVerdict(std::string_view item, const SuiteVerdict& verdict) {
  TRY(Bounded(verdict.verdict, "the verdict"));
  TRY_ASSIGN(auto transaction, Transaction::Begin(impl_->database));
  TRY(DropVerdict(item));
  TRY_ASSIGN(Statement insert,
             impl_->database.Prepare("INSERT INTO judged (item, verdict, device, "
                                     "cases, seconds, created_ms) VALUES (?, ?, ?, ?, ?, ?)"));
  TRY(insert.Bind(item)
          .Bind(verdict.verdict)
          .Bind(verdict.device)
          .Bind(verdict.cases)
          .Bind(verdict.seconds)
          .Bind(NowMs())
          .Run());
  return transaction.Commit();
}

Status SuiteStore::DropVerdict(std::string_view item) {
  return Erase(impl_->database, "DELETE FROM judged WHERE item = ?", item);
}

Status SuiteStore::RecordTimed(std::string_view item, const SuiteTimed& timed) {
  TRY(Bounded(timed.bench, "the measurement"));
  TRY_ASSIGN(Statement insert,
             impl_->database.Prepare("INSERT OR REPLACE INTO timed (item, setting, bench, seconds, "
                                     "created_ms) VALUES (?, ?, ?, ?, ?)"));
  return insert.Bind(item)
      .Bind(timed.setting)
      .Bind(timed.bench)
      .Bind(timed.seconds)
      .Bind(NowMs())
      .Run();
}

Result<std::optional<SuiteVerdict>> SuiteStore::VerdictOf(std::string_view item) const {
  if (impl_->version < kWithVerdicts) return std::optional<SuiteVerdict>();
  TRY_ASSIGN(
      Statement select,
      impl_->database.Prepare("SELECT verdict, device, cases, seconds FROM judged WHERE item = ?"));
  select.Bind(item);
  TRY_ASSIGN(const bool row, select.Next());
  if (!row) return std::optional<SuiteVerdict>();
  SuiteVerdict found{select.Text(0), select.Text(1), select.Text(2), select.Double(3)};
  if (impl_->version < kWithTimes) return std::optional(std::move(found));
  TRY_ASSIGN(Statement times,
             impl_->database.Prepare(
                 "SELECT setting, bench, seconds FROM timed WHERE item = ? ORDER BY rowid"));
  times.Bind(item);
  for (;;) {
    TRY_ASSIGN(const bool more, times.Next());
    if (!more) return std::optional(std::move(found));
    found.timed.push_back({times.Text(0), times.Text(1), times.Double(2)});
  }
}

Status SuiteStore::Record(std::string_view item, const SuiteOutcome& outcome) {
  TRY(Bounded(outcome.verdict, "the verdict"));
  TRY(Bounded(outcome.bench, "the measurement"));
  const auto text = [](const std::string& json) {
    return json.empty() ? std::optional<std::string_view>() : std::string_view{json};
  };
  TRY_ASSIGN(auto transaction, Transaction::Begin(impl_->database));
  TRY_ASSIGN(
      Statement insert,
      impl_->database.Prepare(
          "INSERT OR REPLACE INTO outcomes (item, decision, verdict, bench, error, remedy, "
          "worker, cases, commit_id, seconds, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
          "?)"));
  TRY(insert.Bind(item)
          .Bind(outcome.decision)
          .Bind(text(outcome.verdict))
          .Bind(text(outcome.bench))
          .Bind(outcome.error)
          .Bind(outcome.remedy)
          .Bind(outcome.worker)
          .Bind(outcome.cases)
          .Bind(outcome.commit)
          .Bind(outcome.seconds)
          .Bind(NowMs())
          .Run());
  // If cupel itself failed, the item is retried and keeps the verdict that it has.
  if (!outcome.verdict.empty()) {
    TRY(DropVerdict(item));
  }
  return transaction.Commit();
}

Result<std::optional<SuiteOutcome>> SuiteStore::OutcomeOf(std::string_view item) const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare("SELECT decision, verdict, bench, error, remedy, worker, "
                                     "commit_id, cases, seconds FROM outcomes WHERE item = ?"));
  select.Bind(item);
  TRY_ASSIGN(const bool row, select.Next());
  if (!row) return std::optional<SuiteOutcome>();
  return std::optional(SuiteOutcome{.decision = select.Text(0),
                                    .verdict = select.Text(1),
                                    .bench = select.Text(2),
                                    .error = select.Text(3),
                                    .remedy = select.Text(4),
                                    .worker = select.Text(5),
                                    .commit = select.Text(6),
                                    .cases = select.Text(7),
                                    .seconds = select.Double(8)});
}

Status SuiteStore::AddEvent(std::string_view kind, std::string_view detail_json) {
  return InsertEvent(impl_->database, kind, detail_json);
}

Result<std::vector<Event>> SuiteStore::Events() const { return SelectEvents(impl_->database); }

}  // namespace cupel::archive
