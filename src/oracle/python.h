// Finds a Python that has PyTorch without starting PyTorch: the answer is remembered with the
// stamps of the files it rests on, so that a check whose cases are all pooled starts no Python at
// all. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace cupel::oracle {

struct Python {
  std::string program;        // what to start
  std::string torch_version;  // as torch/version.py says
  /// Changes whenever another interpreter or PyTorch would be used: part of the case pool's keys.
  std::string identity;
};

/// `wanted` (a path or a name on PATH), else $CUPEL_PYTHON, else python3 on PATH if it has PyTorch,
/// else /usr/bin/python3. `memory` is the file to remember answers in; empty remembers nothing.
/// Errors: kEnvironment, saying what to install.
Result<Python> FindPython(const std::string& wanted, const std::filesystem::path& memory);

}  // namespace cupel::oracle
