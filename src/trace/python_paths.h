// What a confined Python that imports PyTorch must be able to read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "oracle/python.h"

namespace cupel::trace {

struct PythonPaths {
  /// sys.path, without relative paths and without folders that contain the user's home.
  std::vector<std::string> import_path;
  /// The interpreter, `import_path`, and the folders of the shared libraries that PyTorch loads.
  std::vector<std::filesystem::path> readable;
};

/// Asks the interpreter, which imports PyTorch to answer. `memory` is the file that caches answers;
/// if empty, nothing is cached. Errors: kEnvironment if PyTorch does not load; kCancelled.
Result<PythonPaths> FindPythonPaths(const oracle::Python& python,
                                    const std::filesystem::path& memory,
                                    const std::stop_token& stop = {});

}  // namespace cupel::trace
