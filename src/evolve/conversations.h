// The models of a run, as its parts ask them: every question and answer is in the run's archive, a
// question that has been answered is never asked again, and what the run has spent before counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "archive/archive.h"
#include "llm/asker.h"
#include "llm/recorded.h"

namespace cupel::evolve {

/// While an asker is at work on another thread, nobody else may use the archive.
class Conversations {
 public:
  /// One asker for each spec, in their order. Borrows `archive`; `options.spent` is what it says.
  static Result<std::unique_ptr<Conversations>> Open(archive::Archive& archive,
                                                     const std::vector<llm::ModelSpec>& specs,
                                                     llm::RecordedOptions options);
  ~Conversations();

  std::vector<llm::Asker*> askers() const;
  /// What the run's questions have cost, those before a resume included.
  llm::Spending Spent() const;

 private:
  struct Impl;
  explicit Conversations(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The questions that a run asked and had answered, as a replay needs them.
Result<std::vector<llm::Exchange>> RecordedExchanges(const archive::Archive& archive);

}  // namespace cupel::evolve
