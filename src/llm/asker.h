// How the parts that work with language models ask one: with its record behind it, by role. The
// driver of a run decides what an answer is worth keeping in and whether it is known already.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "llm/provider.h"
#include "llm/request.h"

namespace cupel::llm {

/// One model. Thread-safe.
class Asker {
 public:
  virtual ~Asker() = default;
  /// `role` says in records what the answer is for: "proposer", "reviewer:memory". What was
  /// answered before is answered again at no cost. Errors: the model cannot be asked (budget,
  /// provider, cancelled); a refusal or a cut text is an answer (Answer::stop).
  virtual Result<Answer> Ask(std::string_view role, const Request& request,
                             const Call& call = {}) = 0;
  /// "provider:name".
  virtual const std::string& model() const = 0;
  /// The hash by which records know `request` when this model is asked.
  virtual std::string HashOf(const Request& request) const = 0;
};

}  // namespace cupel::llm
