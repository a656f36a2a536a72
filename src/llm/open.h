// From the names of models to clients that can be asked. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "llm/client.h"
#include "llm/spec.h"

namespace cupel::llm {

/// What the models of a run share. Nothing is owned; null: there is none.
struct Surroundings {
  const Prices* prices = nullptr;
  Budget* budget = nullptr;
  Sink* sink = nullptr;
  RetryPolicy retry;
  uint64_t seed = 0;
  /// These answer in place of the providers, whatever the specs say; no key is read.
  const std::vector<Exchange>* replay = nullptr;
};

struct Models {
  /// One for each base URL: a provider counts all of its models together.
  std::vector<std::unique_ptr<Limiter>> limiters;
  std::vector<std::unique_ptr<Client>> clients;  // as the specs
};

/// Reads keys and recordings, asks nothing. Rates given with several models of one provider must
/// agree. Errors: a key that is missing, a program or recording that is not there.
Result<Models> OpenModels(const std::vector<ModelSpec>& specs, const Surroundings& surroundings);

}  // namespace cupel::llm
