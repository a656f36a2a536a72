// The language models that a command asks, with what they share: prices, one budget, one
// transcript, and the answers that the transcript holds already.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "llm/asker.h"
#include "llm/open.h"

namespace cupel::cli {

llm::BudgetLimits LimitsOf(const ModelOptions& options);

/// Not movable: its parts borrow from each other. Its clients and askers are thread-safe.
class OpenedModels {
 public:
  /// Reads keys, prices and the transcript; asks nothing. `sink`, if given, gets every exchange too
  /// (an archive); `seed` is of the retries' jitter. What the transcript says was spent counts
  /// towards the budget. Errors: no model, a spec that is none, a key that is missing, a transcript
  /// that is none.
  static Result<std::unique_ptr<OpenedModels>> Open(const ModelOptions& options,
                                                    llm::Sink* sink = nullptr, uint64_t seed = 0);
  OpenedModels(const OpenedModels&) = delete;
  OpenedModels& operator=(const OpenedModels&) = delete;
  ~OpenedModels();

  /// In the order of the options. Askers answer from the transcript what it holds (Answer::usd is
  /// then what it cost at the time, which the budget has counted); clients always ask.
  std::vector<llm::Asker*> askers() const;
  const std::vector<std::unique_ptr<llm::Client>>& clients() const { return models_.clients; }
  const std::vector<llm::ModelSpec>& specs() const { return specs_; }
  llm::Budget& budget() { return *budget_; }
  /// With what the transcript holds of earlier runs.
  llm::Spending Spent() const { return budget_->Spent(); }

 private:
  class Answers;
  class Recorder;
  class RememberingAsker;
  OpenedModels();

  std::vector<llm::ModelSpec> specs_;
  llm::Prices prices_;
  std::unique_ptr<llm::Budget> budget_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Answers> answers_;
  llm::Models models_;
  std::vector<std::unique_ptr<llm::Asker>> askers_;
};

}  // namespace cupel::cli
