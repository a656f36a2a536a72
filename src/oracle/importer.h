// Imports problems: the client of import_task.py, a Python child beside the user's PyTorch that
// runs a file's code, mostly on tensors without data, and writes it as a task folder's text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
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
  std::filesystem::path cache;        // where the search for a Python is remembered; may be empty
  std::chrono::seconds deadline{60};  // of one problem
  uint64_t memory = 0;                // bytes that a problem may take; 0: no bound
  std::function<void(const std::string&)> progress;
};

/// A Python file and what in it is meant; empty names stand for KernelBench's.
struct ImportRequest {
  std::filesystem::path path;
  std::string name;                  // of the task
  std::string module, inputs, init;  // Model, get_inputs, get_init_inputs
  bool evaluate = false;             // in eval mode
};

struct Imported {
  std::vector<std::pair<std::string, std::string>> files;  // name, text
  std::string title;
  Json sizes, reduced;                 // arguments of the setting; smaller ones, or empty
  std::vector<std::string> arguments;  // "float32 [64, 128]" each
  bool functional = false;             // forward_fn is plain functions and calls no module
  std::string compared;                // at which sizes it gave the file's answers; empty: at none
  std::vector<std::string> notes;
  double elements = 0, flops = 0;  // of one call, counted without computing it
  std::string torch_version;
};

/// Why it cannot be a task.
struct ImportRefusal {
  std::string message;
};

using ImportOutcome = std::variant<Imported, ImportRefusal>;

/// Not thread-safe. One child serves many problems; one that dies is replaced.
class Importer {
 public:
  explicit Importer(ImportOptions options);
  ~Importer();

  /// Errors: no PyTorch (kEnvironment), kCancelled.
  Result<ImportOutcome> Import(const ImportRequest& request);

  /// What a direction's function is called with, for the extraction of answers: signature.py's
  /// {"arguments", "init", …}. Errors: kInvalidArgument where the task does not load.
  Result<Json> Signature(const task::Task& task, task::Direction direction);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cupel::oracle
