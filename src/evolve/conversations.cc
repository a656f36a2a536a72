// SPDX-License-Identifier: Apache-2.0
#include "evolve/conversations.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace cupel::evolve {
namespace {

archive::ExchangeEnd EndOf(const llm::Exchange& exchange) {
  archive::ExchangeEnd end;
  end.answer = DumpJson(ToJson(exchange.answer));
  if (exchange.failure) {
    end.error = exchange.failure->error.ToString();
    if (end.error.empty()) end.error = "failed";  // empty means answered
  }
  end.input_tokens = exchange.answer.usage.input_tokens;
  end.output_tokens = exchange.answer.usage.output_tokens;
  end.charged_tokens = exchange.spent.tokens;
  end.charged_nano_usd = exchange.spent.money;
  end.seconds = exchange.seconds;
  return end;
}

/// Records exchanges in the archive.
class Recorder final : public llm::Record {
 public:
  explicit Recorder(archive::Archive& archive) : archive_(archive) {}

  Status Began(const llm::Exchange& exchange) override {
    const std::lock_guard lock(mutex_);
    archive::NewExchange row;
    row.role = exchange.role;
    row.model = exchange.request.model;
    row.hash = exchange.hash;
    row.request = DumpJson(ToJson(exchange.request));
    row.attempt = exchange.attempt;
    row.worst_tokens = exchange.worst.tokens;
    row.worst_nano_usd = exchange.worst.money;
    TRY_ASSIGN(const int64_t id, archive_.BeginExchange(row));
    open_[{exchange.hash, exchange.attempt}] = id;
    return {};
  }

  Status Ended(const llm::Exchange& exchange) override {
    const std::lock_guard lock(mutex_);
    const auto open = open_.extract({exchange.hash, exchange.attempt});
    if (open.empty()) return Fail(ErrorCode::kInternal, "an answer without a question");
    return archive_.EndExchange(open.mapped(), EndOf(exchange));
  }

  Result<std::optional<llm::Answer>> Known(const std::string& hash) override {
    const std::lock_guard lock(mutex_);
    TRY_ASSIGN(const auto text, archive_.AnswerTo(hash));
    if (!text) return std::nullopt;
    TRY_ASSIGN(const Json json, ParseJson(*text, "an answer in the archive"));
    TRY_ASSIGN(llm::Answer answer, llm::AnswerFromJson(json, "an answer in the archive"));
    return answer;
  }

 private:
  archive::Archive& archive_;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> open_;
};

}  // namespace

struct Conversations::Impl {
  explicit Impl(archive::Archive& archive) : recorder(archive) {}

  Recorder recorder;
  std::unique_ptr<llm::RecordedModels> models;
};

Conversations::Conversations(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Conversations::~Conversations() = default;

Result<std::unique_ptr<Conversations>> Conversations::Open(archive::Archive& archive,
                                                           const std::vector<llm::ModelSpec>& specs,
                                                           llm::RecordedOptions options) {
  auto impl = std::make_unique<Impl>(archive);
  TRY_ASSIGN(const archive::Charged charged, archive.ExchangesCharged());
  options.spent = {charged.nano_usd, charged.tokens};
  TRY_ASSIGN(impl->models, llm::RecordedModels::Open(specs, impl->recorder, options));
  return std::unique_ptr<Conversations>(new Conversations(std::move(impl)));
}

std::vector<llm::Asker*> Conversations::askers() const { return impl_->models->askers(); }

llm::Spending Conversations::Spent() const { return impl_->models->budget().Spent(); }

Result<std::vector<llm::Exchange>> RecordedExchanges(const archive::Archive& archive) {
  TRY_ASSIGN(const auto rows, archive.Exchanges());
  std::vector<llm::Exchange> exchanges;
  for (const archive::Exchange& row : rows) {
    if (!row.end || !row.end->error.empty()) continue;
    llm::Exchange exchange;
    exchange.hash = row.hash;
    exchange.role = row.role;
    exchange.attempt = row.attempt;
    TRY_ASSIGN(const Json request, ParseJson(row.request, "a request in the archive"));
    TRY_ASSIGN(exchange.request, llm::RequestFromJson(request, "a request in the archive"));
    TRY_ASSIGN(const Json answer, ParseJson(row.end->answer, "an answer in the archive"));
    TRY_ASSIGN(exchange.answer, llm::AnswerFromJson(answer, "an answer in the archive"));
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

}  // namespace cupel::evolve
