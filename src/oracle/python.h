// Finds a Python that has PyTorch, without starting PyTorch. The result is cached with the stamps
// of the files that it depends on. A check whose cases are all in the pool therefore starts no
// Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "base/result.h"

namespace cupel::oracle {

struct Python {
  std::string program;        // the interpreter to start
  std::string torch_version;  // from torch/version.py
  /// Changes with the interpreter and with PyTorch. Part of the case pool's keys.
  std::string identity;
};

/// What a user can do about a missing PyTorch.
inline constexpr char kTorchRemedy[] =
    "install it (python3 -m pip install torch; in a source tree: tools/setup torch), or set "
    "CUPEL_PYTHON to a Python that has PyTorch 2.4 or later";

/// The interpreter `wanted` (a path or a name on PATH) or, if that is empty, $CUPEL_PYTHON. If both
/// are empty, the first of these that has PyTorch 2.4 or later: python3 on PATH, .venv in the data
/// folder, /usr/bin/python3. `memory` is the file that caches results; if empty, nothing is cached.
/// Errors: kEnvironment, with what to install; kCancelled.
Result<Python> FindPython(const std::string& wanted, const std::filesystem::path& memory,
                          const std::stop_token& stop = {});

}  // namespace cupel::oracle
