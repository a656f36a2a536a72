// Finds what a suite judges: kernels and their tasks (docs/formats/suite.md has the rules).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "archive/suite_store.h"
#include "base/json.h"

namespace cupel::app {

struct SuiteInputs {
  std::filesystem::path input;    // folder of tasks, a task, or a list
  std::filesystem::path kernels;  // folder; empty: the tasks' own kernels
  std::string direction = "both";
  std::string settings = "all";  // tasks without settings of this kind are skipped
};

struct SuiteList {
  std::vector<archive::SuiteItem> items;
  std::vector<std::pair<std::string, std::string>> without_kernel;  // task, direction
  std::vector<std::string> notes;  // tasks that do not load, kernels that match no task
};

/// Errors: the input does not exist, a malformed list, no kernel at all.
Result<SuiteList> ListSuite(const SuiteInputs& inputs, const std::filesystem::path& tasks_root);

}  // namespace cupel::app
