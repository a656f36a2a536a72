// Asks models for the proposals of one generation. A proposal is a short dialogue: the question, an
// answer, one chance to correct an unreadable answer, and after a kernel that fails a chance to
// repair it. Proposals are asked for concurrently, or one after another in one conversation in
// which each must differ from the earlier ones. While some wait for their models, kernels of others
// are looked at. The result depends only on the answers and on what is found out about the kernels,
// not on the order in which they arrive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  std::vector<int64_t> hints;    // ids, in the order of the prompt
  PromptContext context;
};

/// A kernel that a model wrote for a slot.
struct ProposedKernel {
  std::string source, name, thought;
  std::vector<int> ideas;              // Reply::ideas
  std::string exchange;                // hash of the question whose answer it is
  std::vector<std::string> exchanges;  // hashes of all questions since the attempt before
};

/// The result of a slot.
struct Proposed {
  std::vector<ProposedKernel> kernels;  // the first, and its repairs; the last one counts most
  std::string problem;                  // if not empty: why the last answer has no kernel
  std::string exchange;                 // of that answer
  bool not_asked = false;               // the model could not be asked
  Error error;                          // if not_asked: why
};

struct ProposingOptions {
  int generation = 0;
  int repairs = 1;          // of a kernel that fails
  bool sequential = false;  // all slots in the conversation of the first one, with its model
  std::stop_token stop = {};
};

/// What the caller does meanwhile. On its thread, except `prepare`.
struct ProposingWork {
  /// Called with each kernel before find_fault, by as many threads at once as there are dialogues.
  std::function<void(const std::string& source)> prepare;
  /// What is wrong with a kernel, for its author; empty: nothing is, or it need not be repaired.
  std::function<Result<std::string>(const std::string& source)> find_fault;
  std::function<void(int done)> show;  // the number of finished proposals
};

/// Returns one result for each slot, in order. Errors: kCancelled, after a stop request; those of
/// `find_fault`.
Result<std::vector<Proposed>> AskForProposals(const std::vector<Slot>& slots,
                                              const std::vector<llm::Asker*>& models,
                                              const ProposingOptions& options,
                                              const ProposingWork& work);

}  // namespace cupel::evolve
