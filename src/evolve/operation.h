// What a kernel has to compute, as a language model is told it: the task's PyTorch code, the call
// at the sizes that count, what else will be tried, how exact the answer must be, for which GPU,
// and what host code may use. No input, seed or held-out size is in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "oracle/oracle.h"
#include "task/task.h"

namespace cupel::evolve {

inline constexpr size_t kMaxCode = 12u << 10;  // bytes

/// The call of one setting.
struct OperationCall {
  std::string setting;                 // "batch_size=64 num_input_features=128"
  std::vector<std::string> arguments;  // "x: float32[64, 128]", "eps: float = 1e-05"
  std::vector<std::string> outputs;    // "float32[64, 10]", "nothing (return an undefined tensor)"
  bool returns_tuple = false;
};

struct Operation {
  std::string task, title;
  task::Direction direction = task::Direction::kForward;
  task::Format format = task::Format::kFolder;
  std::string code;  // the task's Python, without what leads it
  /// At the settings that are timed; shapes are those of the oracle's cases.
  std::vector<OperationCall> calls;
  /// What the task lists beyond these: "batch_size", "4, 64".
  std::vector<std::pair<std::string, std::string>> ranges;
  device::Description device;
};

/// Draws one case of each timed setting, the same every time. Errors: those of the oracle;
/// kInvalidArgument where there is no such setting or the task's own reference fails at all of
/// them.
Result<Operation> Describe(const task::Task& task, task::Direction direction,
                           oracle::Oracle& oracle, const device::Description& device);

/// The same for the same operation, always. About 6 KiB with the shim's page; long code is cut at
/// kMaxCode.
std::string Text(const Operation& operation);

/// What candidates may use of PyTorch and CUDA: shim/api.md.
const char* ApiMd();

}  // namespace cupel::evolve
