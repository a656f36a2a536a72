// Imports problems: the client of import_task.py, a Python child with the user's PyTorch. It runs a
// file's code, mostly on tensors without data, and writes the text of a task folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "task/task.h"

namespace cupel::oracle {

struct ImportOptions {
  std::filesystem::path script;       // import_task.py
  std::string python;                 // as oracle::Options
  std::filesystem::path cache;        // folder that caches the search for Python; may be empty
  std::chrono::seconds deadline{60};  // for one problem
  uint64_t memory = 0;                // bytes that a problem may use; 0: no limit
  std::function<void(const std::string&)> progress;
  std::stop_token stop;  // requests then end with kCancelled
};

/// A Python file and the names to use in it. An empty name means KernelBench's name.
struct ImportRequest {
  std::filesystem::path path;
  std::string name;                  // of the task
  std::string module, inputs, init;  // Model, get_inputs, get_init_inputs
  bool evaluate = false;             // run the module in eval mode
};

struct Imported {
  std::vector<std::pair<std::string, std::string>> files;  // name, text
  std::string title;
  Json sizes, reduced;                 // arguments of the setting; smaller ones, or empty
  std::vector<std::string> arguments;  // such as "float32 [64, 128]"
  bool functional = false;             // forward_fn calls functions only, no modules
  std::string compared;                // the sizes at which it gave the file's results, or empty
  std::vector<std::string> notes;
  double elements = 0, flops = 0;  // of one call, counted without computing
  std::string torch_version;
};

/// Why the problem cannot be imported.
struct ImportRefusal {
  std::string message;
};

using ImportOutcome = std::variant<Imported, ImportRefusal>;

/// Not thread-safe. One child serves many problems. If it dies, the next call starts another.
class Importer {
 public:
  explicit Importer(ImportOptions options);
  ~Importer();

  /// Errors: no PyTorch (kEnvironment), kCancelled.
  Result<ImportOutcome> Import(const ImportRequest& request);

  /// The arguments of a direction's function at a setting, for Python answers: signature.py's
  /// {"arguments", "init", …}. Errors: kInvalidArgument if the task does not load.
  Result<Json> Signature(const task::Task& task, task::Direction direction,
                         const task::Setting& setting);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cupel::oracle
