// The language models of a run. Every question and answer is recorded in the run's archive. A
// question that has an answer is not asked again. Earlier spending of the run counts toward its
// budget.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "archive/archive.h"
#include "llm/asker.h"
#include "llm/recorded.h"

namespace cupel::evolve {

/// While an asker works on another thread, no other code may use the archive.
class Conversations {
 public:
  /// One asker for each spec, in the order of `specs`. Borrows `archive`, and takes `options.spent`
  /// from it.
  static Result<std::unique_ptr<Conversations>> Open(archive::Archive& archive,
                                                     const std::vector<llm::ModelSpec>& specs,
                                                     llm::RecordedOptions options);
  ~Conversations();

  std::vector<llm::Asker*> askers() const;
  /// What the run's questions have cost, including those before a resume.
  llm::Spending Spent() const;

 private:
  struct Impl;
  explicit Conversations(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The answered questions of a run, for a replay.
Result<std::vector<llm::Exchange>> RecordedExchanges(const archive::Archive& archive);

}  // namespace cupel::evolve
