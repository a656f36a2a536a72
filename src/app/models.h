// The language models that a use case asks. They share prices, one budget, one transcript, and the
// answers that the transcript already contains.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "app/options.h"
#include "base/result.h"
#include "llm/asker.h"
#include "llm/recorded.h"
#include "llm/spec.h"

namespace cupel::app {

llm::BudgetLimits LimitsOf(const ModelOptions& options);
/// Errors: no model was given; an invalid spec.
Result<std::vector<llm::ModelSpec>> SpecsOf(const ModelOptions& options);

/// Not movable, because its parts borrow from each other. Its askers are thread-safe.
class OpenedModels {
 public:
  /// Reads keys, prices and the transcript; asks no model. The spending in the transcript counts
  /// towards the budget. `stop` ends questions. Errors: those of SpecsOf, a missing key, an invalid
  /// transcript.
  static Result<std::unique_ptr<OpenedModels>> Open(const ModelOptions& options,
                                                    const std::stop_token& stop = {});
  OpenedModels(const OpenedModels&) = delete;
  OpenedModels& operator=(const OpenedModels&) = delete;
  ~OpenedModels();

  /// In the order of the options. They answer from the transcript where possible.
  std::vector<llm::Asker*> askers() const { return models_->askers(); }
  const llm::Budget& budget() const { return models_->budget(); }
  /// Includes the spending of earlier runs in the transcript.
  llm::Spending Spent() const { return budget().Spent(); }

 private:
  class Memory;
  OpenedModels();

  std::unique_ptr<Memory> memory_;
  std::unique_ptr<llm::RecordedModels> models_;
};

}  // namespace cupel::app
