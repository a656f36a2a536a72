// Other implementations of a task's operation, such as those of libraries, with which kernels are
// compared in time: files of the task's folder baselines/, or given by the user.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::task {

struct NamedBaseline {
  std::string name;            // for tables: a name in Python, in ASCII
  std::filesystem::path file;  // Python
  std::string function;        // in it; takes the arguments of the task's function
};

/// FOLDER/baselines/NAME.py, by name. Its function is called NAME. Files whose names start with '_'
/// or '.' are left out. Errors: a name that is not an identifier; too many files.
Result<std::vector<NamedBaseline>> FindNamedBaselines(const std::filesystem::path& folder);

/// "FILE.py:FUNCTION" as a baseline called FUNCTION. Errors: another form, or no such file.
Result<NamedBaseline> ParseNamedBaseline(std::string_view text);

}  // namespace cupel::task
