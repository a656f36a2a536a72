// The interface for asking a language model. Questions have a role and go through a record of
// questions and answers. The creator of an Asker decides where it records, and whether known
// answers are reused.
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
  /// `role` says in records what the answer is for: "proposer", "reviewer:memory". A recorded
  /// answer is returned again at no cost. Errors: the model cannot be asked (budget, provider,
  /// cancelled). A refusal or a cut text is an answer (Answer::stop), not an error.
  virtual Result<Answer> Ask(std::string_view role, const Request& request,
                             const Call& call = {}) = 0;
  /// "provider:name".
  virtual const std::string& model() const = 0;
  /// The hash that identifies `request` to this model in records.
  virtual std::string HashOf(const Request& request) const = 0;
};

}  // namespace cupel::llm
