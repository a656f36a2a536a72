// Recorded conversations as a model: for tests, and to repeat a run at no cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "llm/provider.h"
#include "llm/sink.h"

namespace cupel::llm {

/// Answers a request by the recorded answer to the same request; where there is none, to the same
/// prompt and sampling of another model, so that one recording serves under any name; where there
/// is none either and the request has a number (Request::sample), to the question of the same
/// model, role, number and length of conversation, so that a recording outlives changes of the
/// words in which a run asks. Failed attempts do not answer. A request that is not in the recording
/// is an Error that names it. `source` is what messages call the recording.
std::unique_ptr<Provider> ReplayProvider(const std::vector<Exchange>& exchanges,
                                         std::string source);

}  // namespace cupel::llm
