// Uses any program as a model, for example a command-line agent: the prompt is its standard input,
// the answer its standard output. The program is trusted: it runs as the user, with the user's
// environment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "llm/provider.h"

namespace cupel::llm {

struct CommandOptions {
  std::vector<std::string> argv;  // argv[0] is a path, or a name that $PATH resolves
  std::chrono::milliseconds deadline{1800000};
  size_t max_bytes = 8u << 20;  // of the answer
};

/// Error kNotFound: no such program.
Result<std::unique_ptr<Provider>> CommandProvider(CommandOptions options);

}  // namespace cupel::llm
