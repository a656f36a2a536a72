// Reads untrusted JSON that may lack any member. A member of an unexpected type is treated as
// missing. Texts are cut to a maximal length.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/text.h"

namespace cupel::report {

inline constexpr size_t kMaxTextBytes = 4096;

/// Cuts a text to at most kMaxTextBytes.
inline std::string Bounded(std::string_view text) { return cupel::Bounded(text, kMaxTextBytes); }
using cupel::Bounded;

/// The object that `text` contains; an empty one if it contains none.
Json ObjectFrom(std::string_view text);

std::string TextAt(const Json& object, const char* key, size_t max = kMaxTextBytes);
/// A finite number, possibly an integer.
std::optional<double> NumberAt(const Json& object, const char* key);
std::optional<int64_t> IntAt(const Json& object, const char* key);
std::optional<bool> BoolAt(const Json& object, const char* key);
/// The first `max` strings and integers of an array, as strings.
std::vector<std::string> TextsAt(const Json& object, const char* key, size_t max = 100);
/// A member of any type; if it is missing, a null with static lifetime.
const Json& MemberAt(const Json& object, const char* key);
/// A member that is an array or an object; if it is missing, an empty one with static lifetime.
const Json& ListAt(const Json& object, const char* key);
const Json& ObjectAt(const Json& object, const char* key);

}  // namespace cupel::report
