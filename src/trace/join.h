// Makes a plan of a recorded Python program: its operators, the plans of the calls of its
// extensions, and its own launches of kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "device/device.h"
#include "plan/operators.h"
#include "plan/plan.h"
#include "record/call_recorder.h"
#include "record/work.h"

namespace cupel::trace {

/// A recorded call of an extension's function: its plan, and the number of its first image.
struct Part {
  plan::Plan plan;
  int image = 0;
};

/// By the number of their image, and by name.
using Kernels = std::map<std::pair<int, std::string>, record::Kernel>;

/// The storage of a tensor argument.
struct ArgumentStorage {
  uint64_t bytes = 0;
  bool is_input = false;  // and not the task's state, on which a program's construction may depend
};

/// What a trace may refer to.
struct Parts {
  const std::vector<Part>& calls;  // by the number in the trace
  const Kernels& kernels;          // that the program launches itself
  const device::Description& device;
  const std::vector<ArgumentStorage>& arguments;
  plan::OperatorRunner* operators = nullptr;  // null: a program that calls operators is refused
};

/// For an answer of a program's process that cannot be right.
record::Refusal Damaged(std::string_view problem);

/// `trace`: what calls.py's Calls.plan returns. It comes from a process that ran hostile code. The
/// shapes of operators' results are PyTorch's own: they are asked again. Errors: of the operators'
/// process.
Result<std::variant<plan::Plan, record::Refusal>> Join(const Json& trace, const Parts& parts);

}  // namespace cupel::trace
