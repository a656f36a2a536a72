// The models of a run or a command, with a record of questions and answers. A question whose answer
// is recorded is not asked again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "llm/asker.h"
#include "llm/open.h"

namespace cupel::llm {

/// A sink whose answers can be looked up.
class Record : public Sink {
 public:
  /// The first answer to the request with this hash. Thread-safe.
  virtual Result<std::optional<Answer>> Known(const std::string& hash) = 0;
};

struct RecordedOptions {
  BudgetLimits limits;
  Spending spent;  // earlier, counts toward `limits`
  RetryPolicy retry;
  uint64_t seed = 0;  // of the jitter of retries
  /// If set, these answers are used, and no model is asked.
  const std::vector<Exchange>* replay = nullptr;
  std::stop_token stop;  // ends questions that have no Call::stop of their own
};

/// Not movable, because its parts refer to each other. Its askers are thread-safe.
class RecordedModels {
 public:
  /// Reads keys and prices, but asks nothing. Borrows `record`. Errors: those of OpenModels.
  static Result<std::unique_ptr<RecordedModels>> Open(const std::vector<ModelSpec>& specs,
                                                      Record& record,
                                                      const RecordedOptions& options);
  RecordedModels(const RecordedModels&) = delete;
  RecordedModels& operator=(const RecordedModels&) = delete;

  /// One for each spec, in the order of the specs. A known answer costs nothing now; its
  /// Answer::usd is the original cost.
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
