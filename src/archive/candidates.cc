// Archive: candidates, their lineage and verdicts.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "archive/impl.h"
#include "base/hash.h"
#include "base/parse_number.h"

namespace cupel::archive {
namespace {

constexpr const char* kSelect =
    "SELECT c.id, c.generation, c.source, c.proposer, c.description, c.tunables, c.status, "
    "c.created_ms, s.decision, s.objective, (SELECT group_concat(parent) FROM "
    "(SELECT parent FROM lineage WHERE candidate = c.id ORDER BY position)), c.meta "
    "FROM candidates c JOIN standing s ON s.candidate = c.id ";

std::vector<int64_t> ParseIds(std::string_view text) {
  std::vector<int64_t> ids;
  while (const auto id = TakeNumber<int64_t>(text)) {
    ids.push_back(*id);
    text.remove_prefix(std::min<size_t>(1, text.size()));
  }
  return ids;
}

CandidateStatus StatusFrom(std::string_view name) {
  if (name == "queued") return CandidateStatus::kQueued;
  return name == "evaluating" ? CandidateStatus::kEvaluating : CandidateStatus::kDone;
}

Candidate CandidateOf(const Statement& row) {
  Candidate candidate;
  candidate.id = row.Int(0);
  candidate.generation = static_cast<int>(row.Int(1));
  candidate.source_hash = row.Text(2);
  candidate.proposer = row.Text(3);
  candidate.description = row.Text(4);
  candidate.tunables = row.Text(5);
  candidate.status = StatusFrom(row.Text(6));
  candidate.created_ms = row.Int(7);
  candidate.decision = row.Text(8);
  candidate.objective = row.OptionalDouble(9);
  candidate.parents = ParseIds(row.Text(10));
  candidate.meta = row.Text(11);
  return candidate;
}

Result<std::vector<Candidate>> All(Statement statement) {
  std::vector<Candidate> candidates;
  while (true) {
    TRY_ASSIGN(const bool row, statement.Next());
    if (!row) return candidates;
    candidates.push_back(CandidateOf(statement));
  }
}

Result<std::optional<Candidate>> First(Statement statement) {
  TRY_ASSIGN(const bool row, statement.Next());
  if (!row) return std::nullopt;
  return CandidateOf(statement);
}

tl::unexpected<Error> NoCandidate(const Database& database, int64_t id) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} contains no candidate {}", database.file().string(), id));
}

Result<std::optional<int64_t>> IdOfSource(const Database& database, const std::string& hash) {
  TRY_ASSIGN(Statement find, database.Prepare("SELECT id FROM candidates WHERE source = ?"));
  TRY_ASSIGN(const bool row, find.Bind(hash).Next());
  return row ? std::optional<int64_t>(find.Int(0)) : std::nullopt;
}

Status InsertParents(Database& database, int64_t candidate, const std::vector<int64_t>& parents) {
  int position = 0;
  for (int64_t parent : parents) {
    TRY_ASSIGN(Statement exists,
               database.Prepare("SELECT 1 FROM candidates WHERE id = ? AND id < ?"));
    TRY_ASSIGN(const bool row, exists.Bind(parent).Bind(candidate).Next());
    if (!row) return NoCandidate(database, parent);
    TRY_ASSIGN(
        Statement insert,
        database.Prepare("INSERT INTO lineage (candidate, position, parent) VALUES (?, ?, ?)"));
    TRY(insert.Bind(candidate).Bind(position++).Bind(parent).Run());
  }
  return {};
}

Status MarkAs(Database& database, int64_t candidate, CandidateStatus status) {
  TRY_ASSIGN(Statement update, database.Prepare("UPDATE candidates SET status = ? WHERE id = ?"));
  TRY(update.Bind(Name(status)).Bind(candidate).Run());
  if (database.changes() != 1) return NoCandidate(database, candidate);
  return {};
}

Status InsertStage(Database& database, const Stage& stage) {
  if (!std::isfinite(stage.seconds)) {
    return Fail(ErrorCode::kInvalidArgument, "the seconds of a stage must be finite");
  }
  TRY(Bounded(stage.detail, "the detail of a stage"));
  TRY_ASSIGN(Statement insert,
             database.Prepare("INSERT INTO stages (candidate, name, passed, detail, seconds) "
                              "VALUES (?, ?, ?, ?, ?)"));
  return insert.Bind(stage.candidate)
      .Bind(stage.name)
      .Bind(stage.passed ? 1 : 0)
      .Bind(stage.detail)
      .Bind(stage.seconds)
      .Run();
}

constexpr const char* kSelectStages =
    "SELECT candidate, name, passed, detail, seconds FROM stages ";

Result<std::vector<Stage>> AllStages(Statement select) {
  std::vector<Stage> stages;
  while (true) {
    TRY_ASSIGN(const bool row, select.Next());
    if (!row) return stages;
    stages.push_back(
        {select.Int(0), select.Text(1), select.Int(2) != 0, select.Text(3), select.Double(4)});
  }
}

Status CheckVerdict(const NewVerdict& verdict) {
  if (verdict.objective && !std::isfinite(*verdict.objective)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("an objective must be finite, not {}", *verdict.objective));
  }
  if (verdict.objective && verdict.decision != "accepted") {
    return Fail(ErrorCode::kInvalidArgument, "only an accepted candidate has an objective");
  }
  return Bounded(verdict.json, "the verdict");
}

}  // namespace

std::string_view Name(CandidateStatus status) {
  switch (status) {
    case CandidateStatus::kQueued:
      return "queued";
    case CandidateStatus::kEvaluating:
      return "evaluating";
    case CandidateStatus::kDone:
      return "done";
  }
  return "done";
}

Result<std::string> PutBlob(Database& database, std::string_view bytes, std::string_view what) {
  TRY(Bounded(bytes, what));
  std::string hash = Sha256Hex(bytes);
  TRY_ASSIGN(
      Statement insert,
      database.Prepare("INSERT INTO blobs (sha256, bytes) VALUES (?, ?) ON CONFLICT DO NOTHING"));
  TRY(insert.Bind(hash).BindBlob(bytes).Run());
  return hash;
}

Result<Archive::Added> Archive::AddCandidate(const NewCandidate& candidate) {
  Database& database = impl_->database;
  TRY(Bounded(candidate.description, "the description"));
  TRY(Bounded(candidate.tunables, "the tunables"));
  TRY(Bounded(candidate.meta, "the candidate's meta"));
  TRY_ASSIGN(auto transaction, Transaction::Begin(database));
  TRY_ASSIGN(const std::string hash, PutBlob(database, candidate.source, "the source"));
  TRY_ASSIGN(const auto known, IdOfSource(database, hash));
  if (known) return Added{*known, false};
  TRY_ASSIGN(
      Statement insert,
      database.Prepare("INSERT INTO candidates (run, generation, source, proposer, description, "
                       "tunables, meta, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  TRY(insert.Bind(impl_->run_id)
          .Bind(candidate.generation)
          .Bind(hash)
          .Bind(candidate.proposer)
          .Bind(candidate.description)
          .Bind(candidate.tunables)
          .Bind(candidate.meta)
          .Bind(NowMs())
          .Run());
  const int64_t id = database.last_insert_id();
  TRY(InsertParents(database, id, candidate.parents));
  TRY(transaction.Commit());
  return Added{id, true};
}

Status Archive::MarkEvaluating(int64_t candidate) {
  return MarkAs(impl_->database, candidate, CandidateStatus::kEvaluating);
}

Result<int64_t> Archive::RequeueInterrupted() {
  Database& database = impl_->database;
  TRY_ASSIGN(auto transaction, Transaction::Begin(database));
  TRY_ASSIGN(
      Statement update,
      database.Prepare("UPDATE candidates SET status = 'queued' WHERE status = 'evaluating'"));
  TRY(update.Run());
  const int64_t count = database.changes();
  TRY(transaction.Commit());
  return count;
}

Result<int64_t> Archive::RecordVerdict(int64_t candidate, const NewVerdict& verdict,
                                       const Stage& stage) {
  Database& database = impl_->database;
  TRY(CheckVerdict(verdict));
  TRY_ASSIGN(auto transaction, Transaction::Begin(database));
  TRY(MarkAs(database, candidate, CandidateStatus::kDone));
  TRY_ASSIGN(
      Statement insert,
      database.Prepare("INSERT INTO verdicts (candidate, decision, json, objective, "
                       "objective_kind, fresh_cases, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?)"));
  TRY(insert.Bind(candidate)
          .Bind(verdict.decision)
          .Bind(verdict.json)
          .Bind(verdict.objective)
          .Bind(verdict.objective_kind)
          .Bind(verdict.fresh_cases ? 1 : 0)
          .Bind(NowMs())
          .Run());
  const int64_t id = database.last_insert_id();
  if (!stage.name.empty()) TRY(InsertStage(database, stage));
  TRY(transaction.Commit());
  return id;
}

Status Archive::AddStage(const Stage& stage) { return InsertStage(impl_->database, stage); }

Status Archive::Drop(const Stage& stage) {
  TRY_ASSIGN(auto transaction, Transaction::Begin(impl_->database));
  TRY(MarkAs(impl_->database, stage.candidate, CandidateStatus::kDone));
  TRY(InsertStage(impl_->database, stage));
  return transaction.Commit();
}

Result<std::vector<Stage>> Archive::Stages() const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare(std::string(kSelectStages) + "ORDER BY candidate, id"));
  return AllStages(std::move(select));
}

Result<std::vector<Stage>> Archive::StagesOf(int64_t candidate) const {
  TRY_ASSIGN(Statement select, impl_->database.Prepare(std::string(kSelectStages) +
                                                       "WHERE candidate = ? ORDER BY id"));
  select.Bind(candidate);
  return AllStages(std::move(select));
}

Result<Candidate> Archive::Get(int64_t candidate) const {
  TRY_ASSIGN(Statement select, impl_->database.Prepare(std::string(kSelect) + "WHERE c.id = ?"));
  select.Bind(candidate);
  TRY_ASSIGN(auto found, First(std::move(select)));
  if (!found) return NoCandidate(impl_->database, candidate);
  return *std::move(found);
}

Result<std::string> Archive::Source(int64_t candidate) const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare("SELECT b.sha256, b.bytes FROM candidates c "
                                     "JOIN blobs b ON b.sha256 = c.source WHERE c.id = ?"));
  TRY_ASSIGN(const bool row, select.Bind(candidate).Next());
  if (!row) return NoCandidate(impl_->database, candidate);
  std::string source = select.Text(1);
  if (Sha256Hex(source) != select.Text(0)) {
    return Fail(ErrorCode::kIo,
                fmt::format("{} is damaged: the source of candidate {} does not match its hash",
                            impl_->database.file().string(), candidate));
  }
  return source;
}

Result<std::optional<Candidate>> Archive::FindBySource(std::string_view source) const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare(std::string(kSelect) + "WHERE c.source = ?"));
  select.Bind(Sha256Hex(source));
  return First(std::move(select));
}

Result<std::optional<StoredVerdict>> Archive::LatestVerdict(int64_t candidate) const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare(
                 "SELECT id, decision, json, objective, objective_kind, fresh_cases, created_ms "
                 "FROM verdicts WHERE candidate = ? ORDER BY id DESC LIMIT 1"));
  TRY_ASSIGN(const bool row, select.Bind(candidate).Next());
  if (!row) return std::nullopt;
  StoredVerdict verdict;
  verdict.candidate = candidate;
  verdict.id = select.Int(0);
  verdict.decision = select.Text(1);
  verdict.json = select.Text(2);
  verdict.objective = select.OptionalDouble(3);
  verdict.objective_kind = select.Text(4);
  verdict.fresh_cases = select.Int(5) != 0;
  verdict.created_ms = select.Int(6);
  return verdict;
}

Result<std::vector<Candidate>> Archive::BestOf(int count) const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare(std::string(kSelect) +
                                     "WHERE s.decision = 'accepted' AND s.objective IS NOT NULL "
                                     "ORDER BY s.objective, c.id LIMIT ?"));
  select.Bind(std::max(0, count));
  return All(std::move(select));
}

Result<std::optional<Candidate>> Archive::Best() const {
  TRY_ASSIGN(auto best, BestOf(1));
  if (best.empty()) return std::nullopt;
  return std::move(best.front());
}

Result<std::vector<Candidate>> Archive::Lineage(int64_t candidate) const {
  // A CHECK ensures that a parent is older than its child, so ids give the order and the recursion
  // ends.
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare(
                 "WITH RECURSIVE line (id) AS (VALUES (?) UNION SELECT l.parent FROM lineage l "
                 "JOIN line ON l.candidate = line.id AND l.position = 0) " +
                 std::string(kSelect) + "WHERE c.id IN (SELECT id FROM line) ORDER BY c.id"));
  select.Bind(candidate);
  TRY_ASSIGN(auto line, All(std::move(select)));
  if (line.empty()) return NoCandidate(impl_->database, candidate);
  return line;
}

Result<std::vector<Candidate>> Archive::List(std::optional<CandidateStatus> status) const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare(std::string(kSelect) +
                                     "WHERE ?1 IS NULL OR c.status = ?1 ORDER BY c.id"));
  if (status) {
    select.Bind(Name(*status));
  } else {
    select.BindNull();
  }
  return All(std::move(select));
}

}  // namespace cupel::archive
