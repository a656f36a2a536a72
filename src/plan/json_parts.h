// The parts of a plan's JSON that several kinds of nodes have (docs/formats/plan.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "plan/plan.h"

namespace cupel::plan {

/// An error about the text `what`.
template <typename T>
Result<T> Bad(std::string_view what, std::string_view problem) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", what, problem));
}

Json Write(const Address& address);
Json Write(const View& view);
/// Numbers that JSON lacks (inf, nan) are strings.
Json WriteNumber(double value);

// Each reader checks types and ranges; `what` names the text in error messages.
Result<std::vector<int64_t>> Integers(const Json& object, const char* key, size_t count,
                                      std::string_view what);
Result<int> BufferIndex(int64_t value, std::string_view what);
Result<Address> ReadAddress(const Json& object, const char* key, std::string_view what);
Result<DType> ReadDType(std::string_view name, std::string_view what);
Result<View> ReadView(const Json& json, std::string_view what);
Result<double> ReadNumber(const Json& object, const char* key, std::string_view what);

}  // namespace cupel::plan
