// Translates a PyTorch operation to a first correct kernel: asks a model, judges the kernel, and
// reports problems in the same conversation, up to a limit. All state is in the archive. An
// interrupted run is repeated from its beginning with the recorded answers and verdicts, so that
// nothing is asked or judged twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "evolve/evaluator.h"
#include "llm/asker.h"

namespace cupel::evolve {

struct TranslateOptions {
  int attempts = 10;      // answers, including unusable ones
  std::string operation;  // Text(Operation)
};

/// One answer and its result.
struct Attempt {
  int number = 0;  // from 1
  std::string model;
  std::string name;                  // by the model
  std::optional<int64_t> candidate;  // none: the answer was unusable
  bool accepted = false;
  std::string problem;  // lines that say why not
};

struct Translation {
  std::vector<Attempt> attempts;
  std::optional<int64_t> kernel;  // the accepted candidate
};

/// A conversation ends after this many answers. The next one uses the next model and starts with
/// the failed attempts.
inline constexpr int kAnswersAConversation = 4;

/// Asks `models` (at least one) one after another. Errors: those of asking and kCancelled, after
/// which another call can continue; kInvalidArgument if the task cannot be judged.
Result<Translation> Translate(archive::Archive& archive, Evaluator& evaluator,
                              const std::vector<llm::Asker*>& models,
                              const TranslateOptions& options);

}  // namespace cupel::evolve
