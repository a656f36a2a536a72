// Questions to language models and their answers. Questions are recorded before they are sent.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "archive/impl.h"

namespace cupel::archive {
namespace {

Exchange ExchangeOf(const Statement& row) {
  Exchange exchange;
  exchange.id = row.Int(0);
  exchange.candidate = row.OptionalInt(1);
  exchange.role = row.Text(2);
  exchange.model = row.Text(3);
  exchange.hash = row.Text(4);
  exchange.attempt = static_cast<int>(row.Int(5));
  exchange.request = row.Text(6);
  exchange.worst_tokens = row.Int(7);
  exchange.worst_nano_usd = row.Int(8);
  exchange.created_ms = row.Int(9);
  if (row.IsNull(10)) return exchange;
  ExchangeEnd& end = exchange.end.emplace();
  end.answer = row.Text(10);
  end.error = row.Text(11);
  end.input_tokens = row.Int(12);
  end.output_tokens = row.Int(13);
  end.charged_tokens = row.Int(14);
  end.charged_nano_usd = row.Int(15);
  end.seconds = row.Double(16);
  return exchange;
}

}  // namespace

Result<int64_t> Archive::BeginExchange(const NewExchange& exchange) {
  Database& database = impl_->database;
  TRY_ASSIGN(auto transaction, Transaction::Begin(database));
  TRY_ASSIGN(const std::string request, PutBlob(database, exchange.request, "the request"));
  TRY_ASSIGN(
      Statement insert,
      database.Prepare("INSERT INTO exchanges (role, model, hash, attempt, request, worst_tokens, "
                       "worst_nano_usd, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  TRY(insert.Bind(exchange.role)
          .Bind(exchange.model)
          .Bind(exchange.hash)
          .Bind(exchange.attempt)
          .Bind(request)
          .Bind(exchange.worst_tokens)
          .Bind(exchange.worst_nano_usd)
          .Bind(NowMs())
          .Run());
  const int64_t id = database.last_insert_id();
  TRY(transaction.Commit());
  return id;
}

Status Archive::EndExchange(int64_t exchange, const ExchangeEnd& end) {
  Database& database = impl_->database;
  if (!std::isfinite(end.seconds)) {
    return Fail(ErrorCode::kInvalidArgument, "the seconds of an answer must be finite");
  }
  TRY(Bounded(end.error, "the error"));
  TRY_ASSIGN(auto transaction, Transaction::Begin(database));
  TRY_ASSIGN(const std::string answer, PutBlob(database, end.answer, "the answer"));
  TRY_ASSIGN(
      Statement update,
      database.Prepare("UPDATE exchanges SET answer = ?, error = ?, input_tokens = ?, "
                       "output_tokens = ?, charged_tokens = ?, charged_nano_usd = ?, seconds = ? "
                       "WHERE id = ? AND answer IS NULL"));
  TRY(update.Bind(answer)
          .Bind(end.error)
          .Bind(end.input_tokens)
          .Bind(end.output_tokens)
          .Bind(end.charged_tokens)
          .Bind(end.charged_nano_usd)
          .Bind(end.seconds)
          .Bind(exchange)
          .Run());
  if (database.changes() != 1) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} contains no open exchange {}", database.file().string(), exchange));
  }
  return transaction.Commit();
}

Status Archive::AttributeExchange(std::string_view hash, int64_t candidate) {
  TRY_ASSIGN(Statement update,
             impl_->database.Prepare("UPDATE exchanges SET candidate = ? WHERE hash = ?"));
  return update.Bind(candidate).Bind(hash).Run();
}

Result<std::optional<std::string>> Archive::AnswerTo(std::string_view hash) const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare("SELECT b.bytes FROM exchanges e JOIN blobs b ON "
                                     "b.sha256 = e.answer WHERE e.hash = ? AND e.error = '' "
                                     "ORDER BY e.id LIMIT 1"));
  TRY_ASSIGN(const bool row, select.Bind(hash).Next());
  if (!row) return std::nullopt;
  return select.Text(0);
}

Result<std::vector<Exchange>> Archive::Exchanges() const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare(
                 "SELECT e.id, e.candidate, e.role, e.model, e.hash, e.attempt, r.bytes, "
                 "e.worst_tokens, e.worst_nano_usd, e.created_ms, a.bytes, e.error, "
                 "e.input_tokens, e.output_tokens, e.charged_tokens, e.charged_nano_usd, "
                 "e.seconds FROM exchanges e JOIN blobs r ON r.sha256 = e.request "
                 "LEFT JOIN blobs a ON a.sha256 = e.answer ORDER BY e.id"));
  std::vector<Exchange> exchanges;
  while (true) {
    TRY_ASSIGN(const bool row, select.Next());
    if (!row) return exchanges;
    exchanges.push_back(ExchangeOf(select));
  }
}

Result<Charged> Archive::ExchangesCharged() const {
  TRY_ASSIGN(Statement select,
             impl_->database.Prepare(
                 "SELECT coalesce(sum(coalesce(charged_tokens, worst_tokens)), 0), "
                 "coalesce(sum(coalesce(charged_nano_usd, worst_nano_usd)), 0) FROM exchanges"));
  TRY_ASSIGN(const bool row, select.Next());
  return row ? Charged{select.Int(0), select.Int(1)} : Charged{};
}

}  // namespace cupel::archive
