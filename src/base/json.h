// nlohmann::ordered_json behind functions that return values instead of throwing. They also limit
// the size and nesting of hostile text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

namespace cupel {

inline constexpr size_t kMaxJsonBytes = 64u << 20;
inline constexpr int kMaxJsonDepth = 64;

/// Parses UTF-8 JSON. `what` names the text in error messages, e.g. a path. Errors are
/// kInvalidArgument and give line and column.
Result<Json> ParseJson(std::string_view text, std::string_view what);

/// Serialises; never throws (invalid UTF-8 is replaced). indent < 0 gives one line.
std::string DumpJson(const Json& json, int indent = -1);

/// Typed access to a member of an object. The error message names `what` and the key.
Result<std::string> JsonString(const Json& object, const char* key, std::string_view what);
Result<int64_t> JsonInt(const Json& object, const char* key, std::string_view what);
Result<double> JsonNumber(const Json& object, const char* key, std::string_view what);
Result<bool> JsonBool(const Json& object, const char* key, std::string_view what);
/// A member that must be an array or an object.
Result<const Json*> JsonArray(const Json& object, const char* key, std::string_view what);
Result<const Json*> JsonObject(const Json& object, const char* key, std::string_view what);
/// An array of integers, each within int64.
Result<std::vector<int64_t>> JsonIntList(const Json& object, const char* key,
                                         std::string_view what);
Result<std::vector<std::string>> JsonStringList(const Json& object, const char* key,
                                                std::string_view what);

/// Standard base64 with padding.
std::string Base64Encode(std::string_view bytes);
Result<std::string> Base64Decode(std::string_view text, std::string_view what);

}  // namespace cupel
