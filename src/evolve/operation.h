// Describes for a language model what a kernel must compute: the task's PyTorch code, the call at
// the timed sizes, other conditions that are tested, the required accuracy, the GPU, and what host
// code may use. Contains no inputs, seeds or held-out sizes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "evolve/form.h"
#include "oracle/oracle.h"
#include "task/allowed_operators.h"
#include "task/task.h"

namespace cupel::evolve {

inline constexpr size_t kMaxCode = 12u << 10;  // bytes

/// The call of one setting.
struct OperationCall {
  std::string setting;                 // "batch_size=64 num_input_features=128"
  std::vector<std::string> arguments;  // "x: float32[64, 128]", "eps: float = 1e-05"
  std::vector<std::string> outputs;    // "float32[64, 10]", "nothing (return an undefined tensor)"
  std::vector<std::string> changed;    // results that are left in arguments: "cache after the call"
  bool returns_tuple = false;
};

struct Operation {
  std::string task, title;
  task::Direction direction = task::Direction::kForward;
  task::Format format = task::Format::kFolder;
  std::string code;  // the task's Python, without its leading comments
  /// The calls at the timed settings, with the shapes of the oracle's cases.
  std::vector<OperationCall> calls;
  /// Parameters that vary over the task's settings, with their values: "batch_size", "4, 64".
  std::vector<std::pair<std::string, std::string>> ranges;
  std::vector<std::string> sizes;  // parameters that the judge gives other numbers, too
  bool has_init_inputs =
      false;  // its code has get_init_inputs, which makes the constructor's arguments
  bool has_float32 = false, has_16bit = false, has_float8 = false;  // among arguments and outputs
  // What its code has, by the names of PyTorch's functions.
  bool has_products = false;    // matrices, filters
  bool has_statistics = false;  // sums or maxima
  device::Description device;
  // How the answer must be written. Describe() leaves the defaults.
  Form form = Form::kCuda;
  task::AllowedOperators operators;  // that PyTorch may compute; only for Python
};

/// Draws one case of each timed setting, deterministically. Errors: those of the oracle;
/// kInvalidArgument if there is no such setting, or the task's reference fails at all of them.
Result<Operation> Describe(const task::Task& task, task::Direction direction,
                           oracle::Oracle& oracle, const device::Description& device);

/// Deterministic. About 6 KiB with the page of the shim. Long code is cut at kMaxCode.
std::string Text(const Operation& operation);

/// What candidates may use of PyTorch and CUDA: shim/api.md.
const char* ApiMd();

}  // namespace cupel::evolve
