// Creates clients from the specs of models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "llm/client.h"
#include "llm/spec.h"

namespace cupel::llm {

/// What the models of a run share. Nothing is owned; null: none.
struct OpenOptions {
  const Prices* prices = nullptr;
  Budget* budget = nullptr;
  Sink* sink = nullptr;
  RetryPolicy retry;
  uint64_t seed = 0;
  /// If set, these exchanges answer instead of the providers, and no key is read.
  const std::vector<Exchange>* replay = nullptr;
};

struct Models {
  /// One for each base URL, because a provider's limits cover all of its models.
  std::vector<std::unique_ptr<Limiter>> limiters;
  std::vector<std::unique_ptr<Client>> clients;  // in the order of the specs
};

/// Reads keys and recordings, but asks nothing. Rates given with several models of one provider
/// must agree. Errors: a missing key, program or recording; rates that differ.
Result<Models> OpenModels(const std::vector<ModelSpec>& specs, const OpenOptions& options);

}  // namespace cupel::llm
