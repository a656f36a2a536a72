// Filters: measures a task's own quality. A Python child of its own (filter.py) runs the reference
// on several seeds, moves weights and inputs one by one, and leaves out operations one by one; what
// the numbers mean is decided in filter_checks.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "oracle/oracle.h"
#include "task/task.h"

namespace cupel::oracle {

struct FilterOptions {
  std::filesystem::path script;        // filter.py
  std::string python;                  // as Options::python
  std::filesystem::path cache;         // where the search for a Python is remembered; may be empty
  std::chrono::seconds deadline{120};  // of one setting
  uint64_t memory = 0;                 // bytes that a setting may take; 0: 60 % of what is free
  std::function<void(const std::string&)> progress;
};

/// How one output varies. Deviations are the largest of an element's, absent where there is none.
struct OutputMeasures {
  std::string name, dtype;
  std::vector<int64_t> shape;
  double finite = 1;  // share of the elements; the others count as 0 below
  double lowest = 0, highest = 0;
  double scale = 0;                   // root of the mean square
  std::optional<double> seeds_std;    // other inputs and other weights
  std::optional<double> inputs_std;   // the same weights
  std::optional<double> weights_std;  // the same inputs
  struct Axis {
    int64_t axis = 0, size = 0;
    double std = 0;  // at least this, once it is known to be large
  };
  std::vector<Axis> axes;  // those longer than 1
  bool constant = false;   // the same at every seed, within the judge's tolerance
  std::string equals;      // the argument that it is a copy of; may be empty
};

/// What moving one tensor that goes in does.
struct ArgumentMeasures {
  std::string name;
  std::vector<int64_t> shape;
  bool is_weight = false;
  bool fixed = false;           // the same at every seed
  std::optional<bool> matters;  // absent where nothing else could be put in its place
  bool written = false;         // does not matter, but the reference writes to it: running means
  struct Part {
    int64_t axis = 0, from = 0, to = 0;
  };
  std::vector<Part> idle;  // halves that do not matter
};

/// An operation that could be left out.
struct OperationMeasures {
  std::string name, file, text, module;  // file and module may be empty
  int64_t line = 0, calls = 1;
  enum class How { kInput, kZeros, kMean } how = How::kInput;  // what was put in its result's place
  std::vector<std::string> only_for;  // scaled inputs on which it matters all the same
};
const char* Name(OperationMeasures::How how);  // "input", "zeros", "mean"

struct TaskMeasures {
  std::vector<OutputMeasures> outputs;
  std::vector<ArgumentMeasures> arguments;
  bool has_weights = false, weights_vary = false;
  std::optional<int64_t> operations;  // of the reference; absent when they were not tried
  int64_t operations_tried = 0;
  std::vector<OperationMeasures> redundant;
  std::string unfinished;  // what the deadline cut off; may be empty
  std::vector<std::string> warnings;
  std::string torch_version;
  double seconds = 0;
};

/// The task is too large or too slow for this machine and the deadline.
struct TooMuch {
  std::string message;
};

using MeasureOutcome = std::variant<TaskMeasures, SettingFailure, TooMuch>;

/// Not thread-safe. One child serves many tasks; one that dies is replaced.
class Filter {
 public:
  explicit Filter(FilterOptions options);
  ~Filter();

  /// At least two seeds. What is wrong with the task, code that does not load among it, is a
  /// SettingFailure. Errors: no PyTorch (kEnvironment), kCancelled.
  Result<MeasureOutcome> Measure(const task::Task& task, task::Direction direction,
                                 const task::Setting& setting, std::span<const uint64_t> seeds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cupel::oracle
