// C++ declarations of PyTorch's operators, generated from the schemas of the user's PyTorch for the
// operators whose names a source contains. Each declared function calls
// cupel::shim::CallOperator (shim/cupel/operators.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cupel::build {

/// The note on images whose host code contains calls of operators.
inline constexpr char kCallsOperators[] = "host code calls operators of PyTorch";

struct OperatorHeaders {
  std::string methods;    // of the template at::OperatorMethods, a base of at::Tensor
  std::string functions;  // of the namespace at::operators
};

/// True if `source` may call operators without a namespace: it contains "using namespace at" or
/// "using namespace torch".
bool CallsUnqualified(std::string_view source);

/// The operators of `names`, sorted, that `source` calls as a member or by a qualified name:
/// "x.sum(", "torch::cat(", "at::mm_out(" (which is "mm"). All that it names, if it
/// CallsUnqualified.
std::vector<std::string> OperatorsIn(std::string_view source,
                                     const std::vector<std::string>& names);

/// Declares the overloads of `names` (sorted) among the schemas
/// "aten::sum.dim_IntList(Tensor self, int[1]? dim, …) -> Tensor". Skips schemas of other forms,
/// and types that the shim does not have.
OperatorHeaders DeclareOperators(const std::vector<std::string>& schemas,
                                 const std::vector<std::string>& names);

}  // namespace cupel::build
