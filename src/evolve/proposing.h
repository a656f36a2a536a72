// Asks models for the proposals of one generation. A proposal is a short dialogue: the question, an
// answer, one chance to correct an unreadable answer, and rounds of reflection in which the model
// may improve its kernel. Proposals are asked for concurrently, or one after another in one
// conversation in which each must differ from the earlier ones. The result depends only on the
// answers, not on the order of their arrival.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "evolve/prompt.h"
#include "llm/asker.h"

namespace cupel::evolve {

enum class Operator { kRewrite, kEdit, kCrossover };
const char* Name(Operator op);  // "rewrite", "edit", "crossover": as in a candidate's meta

/// One requested proposal.
struct Slot {
  int number = 0;  // within the generation, from 0
  Operator op = Operator::kRewrite;
  size_t model = 0;              // index of the asker
  std::vector<int64_t> parents;  // candidates; edits apply to the first
  std::vector<int64_t> hints;    // ids
  PromptContext context;
};

/// The result of a slot. If `problem` is empty, `source` is a kernel.
struct Proposed {
  std::string source, name, thought;
  std::string exchange;                // hash of the question whose answer was used last
  std::vector<std::string> exchanges;  // hashes of all its questions
  std::string problem;                 // if not empty: why there is no kernel
  bool not_asked = false;              // the model could not be asked
  Error error;                         // if not_asked: why
};

struct ProposingOptions {
  int generation = 0;
  int reflections = 1;
  bool sequential = false;  // all slots in the conversation of the first one, with its model
  std::stop_token stop = {};
};

/// Returns one result for each slot, in order. Calls `progress` on this thread with the number of
/// finished proposals. The only Error is kCancelled, after a stop request.
Result<std::vector<Proposed>> AskForProposals(const std::vector<Slot>& slots,
                                              const std::vector<llm::Asker*>& models,
                                              const ProposingOptions& options,
                                              const std::function<void(int done)>& progress);

}  // namespace cupel::evolve
