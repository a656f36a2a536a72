// SPDX-License-Identifier: Apache-2.0
#include "cli/models.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "llm/transcript.h"

namespace cupel::cli {
namespace {

constexpr double kNanosPerDollar = 1e9;

}  // namespace

llm::BudgetLimits LimitsOf(const ModelOptions& options) {
  llm::BudgetLimits limits;
  if (options.budget_usd) {
    limits.money = static_cast<llm::NanoUsd>(std::floor(*options.budget_usd * kNanosPerDollar));
  }
  limits.tokens = options.budget_tokens;
  return limits;
}

/// What has been answered, by the hash of the request. The first answer stands.
class OpenedModels::Answers {
 public:
  std::optional<llm::Answer> Find(const std::string& hash) const {
    const std::lock_guard lock(mutex_);
    const auto it = by_hash_.find(hash);
    return it == by_hash_.end() ? std::nullopt : std::optional(it->second);
  }
  void Keep(const std::string& hash, llm::Answer answer) {
    const std::lock_guard lock(mutex_);
    by_hash_.emplace(hash, std::move(answer));
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, llm::Answer> by_hash_;
};

/// To the transcript and to the sink that the command has.
class OpenedModels::Recorder : public llm::Sink {
 public:
  Recorder(std::unique_ptr<llm::Transcript> transcript, llm::Sink* other)
      : transcript_(std::move(transcript)), other_(other) {}
  Status Began(const llm::Exchange& exchange) override {
    if (transcript_) TRY(transcript_->Began(exchange));
    return other_ != nullptr ? other_->Began(exchange) : Status();
  }
  Status Ended(const llm::Exchange& exchange) override {
    if (transcript_) TRY(transcript_->Ended(exchange));
    return other_ != nullptr ? other_->Ended(exchange) : Status();
  }

 private:
  std::unique_ptr<llm::Transcript> transcript_;
  llm::Sink* other_;
};

class OpenedModels::RememberingAsker : public llm::Asker {
 public:
  RememberingAsker(llm::Client& client, Answers& answers) : client_(client), answers_(answers) {}

  Result<llm::Answer> Ask(std::string_view role, const llm::Request& request,
                          const llm::Call& call) override {
    const std::string hash = HashOf(request);
    if (auto known = answers_.Find(hash)) {
      if (call.on_text) call.on_text(known->text);
      return std::move(*known);
    }
    llm::Call named = call;
    named.role = role;
    TRY_ASSIGN(llm::Answer answer, client_.Ask(request, named));
    answers_.Keep(hash, answer);
    return answer;
  }
  const std::string& model() const override { return client_.name(); }
  std::string HashOf(const llm::Request& request) const override {
    return llm::HashOf(client_.Complete(request));
  }

 private:
  llm::Client& client_;
  Answers& answers_;
};

OpenedModels::OpenedModels() = default;
OpenedModels::~OpenedModels() = default;

std::vector<llm::Asker*> OpenedModels::askers() const {
  std::vector<llm::Asker*> askers;
  for (const auto& asker : askers_) askers.push_back(asker.get());
  return askers;
}

Result<std::unique_ptr<OpenedModels>> OpenedModels::Open(const ModelOptions& options,
                                                         llm::Sink* sink, uint64_t seed) {
  if (options.specs.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "no language model is named",
                "name one by --model PROVIDER:NAME (docs/models.md): " + llm::ProviderNames());
  }
  std::unique_ptr<OpenedModels> opened(new OpenedModels());
  for (const std::string& text : options.specs) {
    TRY_ASSIGN(llm::ModelSpec spec, llm::ParseModelSpec(text));
    opened->specs_.push_back(std::move(spec));
  }
  TRY_ASSIGN(opened->prices_, llm::Prices::Load());
  opened->budget_ = std::make_unique<llm::Budget>(LimitsOf(options));
  opened->answers_ = std::make_unique<Answers>();
  std::unique_ptr<llm::Transcript> transcript;
  if (!options.transcript.empty()) {
    std::error_code error;
    if (std::filesystem::exists(options.transcript, error)) {
      TRY_ASSIGN(llm::Recorded recorded, llm::ReadTranscript(options.transcript));
      opened->budget_->Charge(recorded.spent);
      for (llm::Exchange& exchange : recorded.exchanges) {
        if (!exchange.failure) opened->answers_->Keep(exchange.hash, std::move(exchange.answer));
      }
    }
    TRY_ASSIGN(transcript, llm::Transcript::Open(options.transcript));
  }
  opened->recorder_ = std::make_unique<Recorder>(std::move(transcript), sink);
  llm::Surroundings surroundings;
  surroundings.prices = &opened->prices_;
  surroundings.budget = opened->budget_.get();
  surroundings.sink = opened->recorder_.get();
  surroundings.seed = seed;
  TRY_ASSIGN(opened->models_, llm::OpenModels(opened->specs_, surroundings));
  for (const auto& client : opened->models_.clients) {
    opened->askers_.push_back(std::make_unique<RememberingAsker>(*client, *opened->answers_));
  }
  return opened;
}

}  // namespace cupel::cli
