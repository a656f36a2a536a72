// Executes operators with the user's PyTorch, on the CPU, in a child that runs no other code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "plan/operators.h"

namespace cupel::oracle {

struct OperatorOptions {
  std::filesystem::path script;  // operators.py
  std::string python;            // as Options::python
  std::filesystem::path cache;   // for the search for Python and the schemas; may be empty
  int threads = 0;               // as Options::threads
  std::stop_token stop;          // calls then return kCancelled
};

/// Starts PyTorch at the first question that needs it. Errors of the calls: kEnvironment if there
/// is no PyTorch or it cannot start, kIo if it died.
std::shared_ptr<plan::OperatorRunner> MakeOperatorRunner(OperatorOptions options);

}  // namespace cupel::oracle
