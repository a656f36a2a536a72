// SPDX-License-Identifier: Apache-2.0
#include "app/models.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "llm/transcript.h"

namespace cupel::app {
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

Result<std::vector<llm::ModelSpec>> SpecsOf(const ModelOptions& options) {
  if (options.specs.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "no language model was given",
                "give one with --model PROVIDER:NAME (docs/models.md): " + llm::ProviderNames());
  }
  return llm::ParseModelSpecs(options.specs);
}

/// Caches the answers in memory, and writes the transcript if there is one.
class OpenedModels::Memory final : public llm::Record {
 public:
  /// Loads the answers in `file`, if it exists, and opens it for appending. Returns what was spent
  /// on them.
  Result<llm::Spending> OpenTranscript(const std::filesystem::path& file) {
    llm::Spending spent;
    std::error_code error;
    if (std::filesystem::exists(file, error)) {
      TRY_ASSIGN(llm::Recorded recorded, llm::ReadTranscript(file));
      spent = recorded.spent;
      for (const llm::Exchange& exchange : recorded.exchanges) Keep(exchange);
    }
    TRY_ASSIGN(transcript_, llm::Transcript::Open(file));
    return spent;
  }

  Status Began(const llm::Exchange& exchange) override {
    return transcript_ ? transcript_->Began(exchange) : Status();
  }
  Status Ended(const llm::Exchange& exchange) override {
    if (transcript_) TRY(transcript_->Ended(exchange));
    Keep(exchange);
    return {};
  }
  Result<std::optional<llm::Answer>> Known(const std::string& hash) override {
    const std::lock_guard lock(mutex_);
    const auto it = answers_.find(hash);
    return it == answers_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  /// Stores the answer, unless the question already has one.
  void Keep(const llm::Exchange& exchange) {
    if (exchange.failure) return;
    const std::lock_guard lock(mutex_);
    answers_.emplace(exchange.hash, exchange.answer);
  }

  std::unique_ptr<llm::Transcript> transcript_;
  std::mutex mutex_;
  std::map<std::string, llm::Answer> answers_;
};

OpenedModels::OpenedModels() = default;
OpenedModels::~OpenedModels() = default;

Result<std::unique_ptr<OpenedModels>> OpenedModels::Open(const ModelOptions& options,
                                                         const std::stop_token& stop) {
  TRY_ASSIGN(const auto specs, SpecsOf(options));
  std::unique_ptr<OpenedModels> opened(new OpenedModels());
  opened->memory_ = std::make_unique<Memory>();
  llm::RecordedOptions recorded;
  recorded.limits = LimitsOf(options);
  recorded.stop = stop;
  if (!options.transcript.empty()) {
    TRY_ASSIGN(recorded.spent, opened->memory_->OpenTranscript(options.transcript));
  }
  TRY_ASSIGN(opened->models_, llm::RecordedModels::Open(specs, *opened->memory_, recorded));
  return opened;
}

}  // namespace cupel::app
