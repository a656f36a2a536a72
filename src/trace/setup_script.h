// Runs a setup.py in a locked Python process (py/setup_script.py), and returns the extension that
// it describes. The script sees the names of the files in its folder, and no contents.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "record/call_recorder.h"
#include "trace/python_pool.h"

namespace cupel::trace {

/// Paths are relative to the script's folder, or absolute. Everything comes from hostile code.
struct SetupExtension {
  std::string name;
  std::vector<std::string> sources, include_dirs;
  std::vector<std::string> flags;  // of nvcc, also -D for macros
};

/// The only extension with CUDA files that the script passes to setup(). A refusal if there is
/// none, if there are several, or if the script fails. Errors: the script cannot be read; PyTorch
/// does not start; kCancelled.
Result<std::variant<SetupExtension, record::Refusal>> RunSetup(const std::filesystem::path& script,
                                                               PythonPool& pool,
                                                               const device::Description& device,
                                                               const std::stop_token& stop);

}  // namespace cupel::trace
