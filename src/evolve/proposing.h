// Asks models for the proposals of one generation. A proposal is a short dialogue: the question, an
// answer, one chance to mend an answer that cannot be read, and rounds of reflection in which the
// model may better what it wrote. Proposals are asked for side by side, or one after another in one
// conversation in which each must differ from those before. What comes of it depends on the answers
// alone, never on the order in which they arrive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "evolve/prompt.h"
#include "llm/asker.h"

namespace cupel::evolve {

enum class Operator { kRewrite, kEdit, kCrossover };
const char* Name(Operator way);  // "rewrite", "edit", "crossover": as in a candidate's meta

/// One proposal that is wanted.
struct Slot {
  int number = 0;  // within the generation, from 0
  Operator way = Operator::kRewrite;
  size_t model = 0;              // of the askers
  std::vector<int64_t> parents;  // candidates; the first is the one that edits are of
  std::vector<int64_t> hints;    // ids
  PromptContext context;
};

/// What came of it. Without a problem, `source` is a kernel.
struct Proposed {
  std::string source, name, thought;
  std::string exchange;                // the hash of the question whose answer was used last
  std::vector<std::string> exchanges;  // of all its questions
  std::string problem;                 // not empty: there is no kernel, and why
  bool not_asked = false;  // the problem is that the model could not be asked, and this is why:
  Error error;
};

struct ProposingOptions {
  int generation = 0;
  int reflections = 1;
  bool sequential = false;  // all slots in the conversation of the first one, with its model
};

/// As many as slots, in their order. `progress` is told how many are done, on this thread. An Error
/// only when the user has interrupted.
Result<std::vector<Proposed>> AskForProposals(const std::vector<Slot>& slots,
                                              const std::vector<llm::Asker*>& models,
                                              const ProposingOptions& options,
                                              const std::function<void(int done)>& progress);

}  // namespace cupel::evolve
