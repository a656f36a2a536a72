// The models of a run or a command behind their record: what is asked and answered goes there, and
// a question whose answer is there is not asked again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llm/asker.h"
#include "llm/open.h"

namespace cupel::llm {

/// A sink that knows what it holds.
class Record : public Sink {
 public:
  /// The first answer to the request with this hash. Called by many threads.
  virtual Result<std::optional<Answer>> Known(const std::string& hash) = 0;
};

struct RecordedOptions {
  BudgetLimits limits;
  Spending spent;  // of the limits, before
  RetryPolicy retry;
  uint64_t seed = 0;  // of the retries' jitter
  /// Answers that are given instead of asking; null: the models are asked.
  const std::vector<Exchange>* replay = nullptr;
};

/// Not movable: its parts borrow from each other. Its askers are thread-safe.
class RecordedModels {
 public:
  /// Reads keys and prices, asks nothing. Borrows `record`. Errors: those of OpenModels.
  static Result<std::unique_ptr<RecordedModels>> Open(const std::vector<ModelSpec>& specs,
                                                      Record& record,
                                                      const RecordedOptions& options);
  RecordedModels(const RecordedModels&) = delete;
  RecordedModels& operator=(const RecordedModels&) = delete;

  /// One for each spec, in their order. A known answer costs nothing; its Answer::usd is what it
  /// cost at the time.
  std::vector<Asker*> askers() const;
  const Budget& budget() const { return budget_; }

 private:
  explicit RecordedModels(const BudgetLimits& limits) : budget_(limits) {}

  Prices prices_;
  Budget budget_;
  Models models_;
  std::vector<std::unique_ptr<Asker>> askers_;
};

}  // namespace cupel::llm
