// Uses recorded conversations as a model, for tests and to repeat a run at no cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "llm/provider.h"
#include "llm/sink.h"

namespace cupel::llm {

/// Answers a request with the recorded answer to the same request. If there is none, takes the
/// answer of another model to the same prompt and sampling, so that model names may change. If that
/// is missing too and the request has a number (Request::sample), takes the answer to the question
/// with the same model, role, number and length of conversation, so that the wording of prompts may
/// change. Ignores failed attempts. Returns an Error that names the request if no answer matches.
/// `source` names the recording in messages.
std::unique_ptr<Provider> ReplayProvider(const std::vector<Exchange>& exchanges,
                                         std::string source);

}  // namespace cupel::llm
