// The language models that a command asks, with what they share: prices, one budget, one
// transcript, and the answers that the transcript holds already.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "llm/asker.h"
#include "llm/recorded.h"
#include "llm/spec.h"

namespace cupel::cli {

llm::BudgetLimits LimitsOf(const ModelOptions& options);
/// Errors: no model is named; a spec that is none.
Result<std::vector<llm::ModelSpec>> SpecsOf(const ModelOptions& options);

/// Not movable: its parts borrow from each other. Its askers are thread-safe.
class OpenedModels {
 public:
  /// Reads keys, prices and the transcript; asks nothing. What the transcript says was spent counts
  /// towards the budget. Errors: those of SpecsOf, a key that is missing, a transcript that is
  /// none.
  static Result<std::unique_ptr<OpenedModels>> Open(const ModelOptions& options);
  OpenedModels(const OpenedModels&) = delete;
  OpenedModels& operator=(const OpenedModels&) = delete;
  ~OpenedModels();

  /// In the order of the options. They answer from the transcript what it holds.
  std::vector<llm::Asker*> askers() const { return models_->askers(); }
  const llm::Budget& budget() const { return models_->budget(); }
  /// With what the transcript holds of earlier runs.
  llm::Spending Spent() const { return budget().Spent(); }

 private:
  class Memory;
  OpenedModels();

  std::unique_ptr<Memory> memory_;
  std::unique_ptr<llm::RecordedModels> models_;
};

}  // namespace cupel::cli
