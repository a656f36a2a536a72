// Reads JSON that others wrote and that may lack anything: what is absent or of another type is as
// if it had not been said. Texts are bounded. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace cupel::report {

inline constexpr size_t kMaxTextBytes = 4096;

/// At most `max` bytes; what is cut, never within a character, is marked by " …".
std::string Bounded(std::string_view text, size_t max = kMaxTextBytes);

/// An object, or an empty one where the text is none.
Json ObjectFrom(std::string_view text);

std::string TextAt(const Json& object, const char* key, size_t max = kMaxTextBytes);
/// Finite; integers too.
std::optional<double> NumberAt(const Json& object, const char* key);
std::optional<int64_t> IntAt(const Json& object, const char* key);
std::optional<bool> BoolAt(const Json& object, const char* key);
/// The first `max` texts and integers of an array, as texts.
std::vector<std::string> TextsAt(const Json& object, const char* key, size_t max = 100);
/// A member of any type; else a null, for ever.
const Json& MemberAt(const Json& object, const char* key);
/// A member that is an array or an object; else an empty one, for ever.
const Json& ListAt(const Json& object, const char* key);
const Json& ObjectAt(const Json& object, const char* key);

}  // namespace cupel::report
