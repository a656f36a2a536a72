// PyTorch as the executor of a plan's operators. The recorder asks it for the shapes of results,
// and an engine for the results. oracle/operators.h implements it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "plan/plan.h"

namespace cupel::plan {

inline bool HasOperators(const Plan& plan) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(),
                     [](const Node& node) { return std::holds_alternative<Operator>(node.work); });
}

/// What an operator computes with.
struct Arithmetic {
  /// All floating-point views must be float64, and dtypes among the arguments mean float64 too.
  bool in_float64 = false;
  /// Also in float64, and each such view has one more dimension in front, of 2: the numbers, then
  /// the bits of elements of a field, p and q << 32. {"index", "seed", "numbers": [{"value" (in
  /// hexadecimal), "p", "q"}]}, as engine/field.h. Null: no elements.
  const Json* field = nullptr;
};

/// Thread-safe.
class OperatorRunner {
 public:
  virtual ~OperatorRunner() = default;

  /// The schemas of all operators that a plan may contain, as PyTorch writes them:
  /// "aten::sum.dim_IntList(Tensor self, int[1]? dim, …) -> Tensor".
  virtual Result<std::vector<std::string>> Schemas() = 0;

  /// Finds the results of a call without computing them. The question is {"name", "arguments",
  /// "storages"}: the arguments' views name a storage by its index, and "storages" are their sizes
  /// in bytes. The answer has "outputs" (each {"storage" or null, "offset", "dtype", "shape",
  /// "strides", "bytes"}) and "mutated", the written arguments; or "refused", why
  /// the operator is not allowed; or "failure", what PyTorch says against the call.
  virtual Result<Json> Describe(const Json& question) = 0;

  /// Executes an operator. `memory(i)` are the bytes of buffer i of the plan, in which all views
  /// are. Returns what PyTorch says against the call, or that a field does not cover it; empty if
  /// it was executed.
  virtual Result<std::string> Run(const Operator& work, const Arithmetic& arithmetic,
                                  const std::function<std::span<std::byte>(int)>& memory) = 0;
};

}  // namespace cupel::plan
