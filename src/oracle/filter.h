// The filter measures a task's quality. A separate Python child (filter.py) runs the reference with
// several seeds. It also changes weights and inputs one by one, and leaves out operations one by
// one. filter_checks.h judges the numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
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
  std::filesystem::path cache;         // folder that caches the search for Python; may be empty
  std::chrono::seconds deadline{120};  // for one setting
  uint64_t memory = 0;                 // bytes that a setting may use; 0: 60 % of the free memory
  std::function<void(const std::string&)> progress;
  std::stop_token stop;  // Measure then ends with kCancelled
};

/// How one output varies. Each deviation is the largest standard deviation of an element; it is
/// absent if it could not be measured.
struct OutputMeasures {
  std::string name, dtype;
  std::vector<int64_t> shape;
  double finite = 1;  // share of finite elements; other elements count as 0 below
  double lowest = 0, highest = 0;
  double scale = 0;                   // root of the mean square
  std::optional<double> seeds_std;    // with other inputs and other weights
  std::optional<double> inputs_std;   // with other inputs, the same weights
  std::optional<double> weights_std;  // with other weights, the same inputs
  struct Axis {
    int64_t axis = 0, size = 0;
    double std = 0;  // a lower bound if it is large
  };
  std::vector<Axis> axes;  // those longer than 1
  bool constant = false;   // the same at every seed, within the judge's tolerance
  std::string equals;      // the argument that it is a copy of; may be empty
};

/// The effect of changing one input tensor.
struct ArgumentMeasures {
  std::string name;
  std::vector<int64_t> shape;
  bool is_weight = false;
  bool fixed = false;           // the same at every seed
  std::optional<bool> matters;  // absent if no replacement could be tried
  bool written = false;         // does not matter, but the reference writes it (running means)
  struct Part {
    int64_t axis = 0, from = 0, to = 0;
  };
  std::vector<Part> idle;  // halves that do not matter
};

/// An operation that a kernel could leave out.
struct OperationMeasures {
  std::string name, file, text, module;  // file and module may be empty
  int64_t line = 0, calls = 1;
  enum class How { kInput, kZeros, kMean } how = How::kInput;  // the replacement of its result
  std::vector<std::string> only_for;  // the scaled inputs on which it still matters
};
const char* Name(OperationMeasures::How how);  // "input", "zeros", "mean"

struct TaskMeasures {
  std::vector<OutputMeasures> outputs;
  std::vector<ArgumentMeasures> arguments;
  bool has_weights = false, weights_vary = false;
  std::optional<int64_t> operations;  // of the reference; absent if none was tried
  int64_t operations_tried = 0;
  std::vector<OperationMeasures> redundant;
  std::string unfinished;  // the step that the deadline stopped; may be empty
  std::vector<std::string> warnings;
  std::string torch_version;
  double seconds = 0;
};

/// The task is too large or too slow for this machine and the deadline.
struct TooMuch {
  std::string message;
};

using MeasureOutcome = std::variant<TaskMeasures, SettingFailure, TooMuch>;

/// Not thread-safe. One child serves many tasks. If it dies, the next call starts another.
class Filter {
 public:
  explicit Filter(FilterOptions options);
  ~Filter();

  /// Needs at least two seeds. A fault of the task, such as code that does not load, is a
  /// SettingFailure. Errors: no PyTorch (kEnvironment), kCancelled.
  Result<MeasureOutcome> Measure(const task::Task& task, task::Direction direction,
                                 const task::Setting& setting, std::span<const uint64_t> seeds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cupel::oracle
