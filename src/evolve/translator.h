// From PyTorch to a first kernel that is right: ask, judge, and give what is wrong back in the same
// conversation, up to a bound. All state is in the archive: a run that was cut off is gone through
// again from its beginning with the answers and verdicts that it holds, so that nothing is asked or
// judged twice. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "evolve/evaluator.h"
#include "llm/asker.h"

namespace cupel::evolve {

struct TranslateOptions {
  int attempts = 10;      // answers, the unusable ones counted
  std::string operation;  // Text(Operation)
};

/// One answer and what became of it.
struct Attempt {
  int number = 0;  // from 1
  std::string model;
  std::string name;                  // as the model calls it
  std::optional<int64_t> candidate;  // none: the answer was unusable
  bool accepted = false;
  std::string problem;  // lines: why not
};

struct Translation {
  std::vector<Attempt> attempts;
  std::optional<int64_t> kernel;  // the candidate that is right
};

/// A conversation is given up after this many answers; the next one, with the next model, begins
/// with what has failed.
inline constexpr int kAnswersAConversation = 4;

/// Asks `models` (at least one) in turns. Errors: those of asking and kCancelled, which leave the
/// archive ready for another call; kInvalidArgument where the task cannot be judged.
Result<Translation> Translate(archive::Archive& archive, Evaluator& evaluator,
                              const std::vector<llm::Asker*>& models,
                              const TranslateOptions& options);

}  // namespace cupel::evolve
