// The run itself and the append-only records: samples, costs, events.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "archive/impl.h"
#include "base/parse_number.h"

namespace cupel::archive {
namespace {

uint64_t ParseSeed(std::string_view text) { return ParseNumber<uint64_t>(text).value_or(0); }

}  // namespace

std::string_view Name(RunStatus status) {
  switch (status) {
    case RunStatus::kRunning:
      return "running";
    case RunStatus::kStopped:
      return "stopped";
    case RunStatus::kFinished:
      return "finished";
    case RunStatus::kFailed:
      return "failed";
  }
  return "failed";
}

RunStatus StatusOf(std::string_view stored, const Claim& claim) {
  for (const RunStatus status : {RunStatus::kStopped, RunStatus::kFinished}) {
    if (stored == Name(status)) return status;
  }
  if (stored != Name(RunStatus::kRunning)) return RunStatus::kFailed;
  return claim.HasOwner() ? RunStatus::kRunning : RunStatus::kStopped;
}

Status WriteState(Database& database, std::string_view json) {
  TRY(Bounded(json, "the run's state"));
  TRY_ASSIGN(Statement update, database.Prepare("UPDATE runs SET state = ?, updated_ms = ?"));
  return update.Bind(json).Bind(NowMs()).Run();
}

Result<RunInfo> Archive::Run() const {
  TRY_ASSIGN(
      Statement select,
      impl_->database.Prepare("SELECT r.id, t.name, t.direction, t.sha256, r.cupel_version, "
                              "r.command, r.config, r.seed, r.status, r.created_ms, r.updated_ms "
                              "FROM runs r JOIN tasks t ON t.id = r.task"));
  TRY_ASSIGN(const bool row, select.Next());
  if (!row) return Fail(ErrorCode::kIo, impl_->database.file().string() + " is damaged: no run");
  RunInfo run;
  run.id = select.Text(0);
  run.task = select.Text(1);
  run.direction = select.Text(2);
  run.task_hash = select.Text(3);
  run.cupel_version = select.Text(4);
  run.command = select.Text(5);
  run.config = select.Text(6);
  run.seed = ParseSeed(select.Text(7));
  run.status = StatusOf(select.Text(8), impl_->claim);
  run.created_ms = select.Int(9);
  run.updated_ms = select.Int(10);
  return run;
}

Status Archive::SetStatus(RunStatus status) {
  TRY_ASSIGN(Statement update,
             impl_->database.Prepare("UPDATE runs SET status = ?, updated_ms = ?"));
  return update.Bind(Name(status)).Bind(NowMs()).Run();
}

Result<std::string> Archive::State() const {
  TRY_ASSIGN(Statement select, impl_->database.Prepare("SELECT state FROM runs"));
  TRY_ASSIGN(const bool row, select.Next());
  return row ? select.Text(0) : "null";
}

Status Archive::PutState(std::string_view json) { return WriteState(impl_->database, json); }

Status Archive::PutState(std::string_view json, std::string_view event_kind,
                         std::string_view event_detail_json) {
  TRY_ASSIGN(auto transaction, Transaction::Begin(impl_->database));
  TRY(WriteState(impl_->database, json));
  TRY(InsertEvent(impl_->database, event_kind, event_detail_json));
  return transaction.Commit();
}

Result<Counts> Archive::Count() const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare("SELECT c.status, s.decision, count(*) FROM candidates c "
                                     "JOIN standing s ON s.candidate = c.id GROUP BY 1, 2"));
  Counts counts;
  while (true) {
    TRY_ASSIGN(const bool row, select.Next());
    if (!row) return counts;
    const std::string status = select.Text(0), decision = select.Text(1);
    const int64_t n = select.Int(2);
    (status == "queued"       ? counts.queued
     : status == "evaluating" ? counts.evaluating
                              : counts.done) += n;
    if (decision == "accepted") counts.accepted += n;
    if (decision == "rejected") counts.rejected += n;
    if (decision == "unsupported") counts.unsupported += n;
    if (decision == "error") counts.error += n;
    if (decision.empty() && status == "done") counts.dropped += n;
  }
}

Status Archive::AddSamples(int64_t verdict, const std::vector<Sample>& samples) {
  Database& database = impl_->database;
  TRY_ASSIGN(auto transaction, Transaction::Begin(database));
  for (const Sample& sample : samples) {
    int64_t position = 0;
    for (double us : sample.us) {
      if (!std::isfinite(us)) return Fail(ErrorCode::kInvalidArgument, "a sample must be finite");
      TRY_ASSIGN(
          Statement insert,
          database.Prepare("INSERT INTO samples (verdict, setting, clock, subject, position, us) "
                           "VALUES (?, ?, ?, ?, ?, ?)"));
      TRY(insert.Bind(verdict)
              .Bind(sample.setting)
              .Bind(sample.clock)
              .Bind(sample.subject)
              .Bind(position++)
              .Bind(us)
              .Run());
    }
  }
  return transaction.Commit();
}

Result<std::vector<Sample>> Archive::Samples(int64_t verdict) const {
  TRY_ASSIGN(
      Statement select,
      impl_->database.Prepare("SELECT setting, clock, subject, us FROM samples WHERE verdict = ? "
                              "ORDER BY setting, clock, subject, position"));
  select.Bind(verdict);
  std::vector<Sample> samples;
  while (true) {
    TRY_ASSIGN(const bool row, select.Next());
    if (!row) return samples;
    Sample key{select.Text(0), select.Text(1), select.Text(2), {}};
    const bool same = !samples.empty() && samples.back().setting == key.setting &&
                      samples.back().clock == key.clock && samples.back().subject == key.subject;
    if (!same) samples.push_back(std::move(key));
    samples.back().us.push_back(select.Double(3));
  }
}

Status Archive::AddCost(const Cost& cost) {
  TRY_ASSIGN(Statement insert,
             impl_->database.Prepare("INSERT INTO costs (candidate, kind, detail, input_tokens, "
                                     "output_tokens, seconds, usd, created_ms) "
                                     "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  return insert.Bind(cost.candidate)
      .Bind(cost.kind)
      .Bind(cost.detail)
      .Bind(cost.input_tokens)
      .Bind(cost.output_tokens)
      .Bind(cost.seconds)
      .Bind(cost.usd)
      .Bind(NowMs())
      .Run();
}

Result<std::vector<Cost>> Archive::CostsByKind() const {
  TRY_ASSIGN(
      Statement select,
      impl_->database.Prepare("SELECT kind, sum(input_tokens), sum(output_tokens), sum(seconds), "
                              "sum(usd) FROM costs GROUP BY kind ORDER BY kind"));
  std::vector<Cost> costs;
  while (true) {
    TRY_ASSIGN(const bool row, select.Next());
    if (!row) return costs;
    Cost cost;
    cost.kind = select.Text(0);
    cost.input_tokens = select.Int(1);
    cost.output_tokens = select.Int(2);
    cost.seconds = select.Double(3);
    cost.usd = select.Double(4);
    costs.push_back(std::move(cost));
  }
}

Status InsertEvent(Database& database, std::string_view kind, std::string_view detail_json) {
  TRY(Bounded(detail_json, "the event"));
  TRY_ASSIGN(Statement insert,
             database.Prepare("INSERT INTO events (kind, detail, created_ms) VALUES (?, ?, ?)"));
  return insert.Bind(kind).Bind(detail_json).Bind(NowMs()).Run();
}

Result<std::vector<Event>> SelectEvents(Database& database) {
  TRY_ASSIGN(Statement select,
             database.Prepare("SELECT id, created_ms, kind, detail FROM events ORDER BY id"));
  std::vector<Event> events;
  while (true) {
    TRY_ASSIGN(const bool row, select.Next());
    if (!row) return events;
    events.push_back({select.Int(0), select.Int(1), select.Text(2), select.Text(3)});
  }
}

Status Archive::AddEvent(std::string_view kind, std::string_view detail_json) {
  return InsertEvent(impl_->database, kind, detail_json);
}

Result<std::vector<Event>> Archive::Events() const { return SelectEvents(impl_->database); }

}  // namespace cupel::archive
