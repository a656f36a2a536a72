// Reads and writes members that occur in several messages of the protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cupel::serve {

/// A string of at most `longest` bytes.
Result<std::string> WireText(const Json& json, const char* key, size_t longest = 65536);
/// An integer that is not negative.
Result<int64_t> WireCount(const Json& json, const char* key);
Result<std::vector<std::string>> WireTexts(const Json& json, const char* key, size_t most = 256);
/// 64 bits as a decimal string; null for none.
Json WireSeed(const std::optional<uint64_t>& seed);
Result<std::optional<uint64_t>> ReadWireSeed(const Json& json, const char* key);
Result<uint64_t> ParseSeed(const std::string& text);
/// 64 lower-case hex digits; may be empty if `may_be_empty`.
Result<std::string> WireHash(const Json& json, const char* key, bool may_be_empty = false);

/// A required member; nullptr if it is null.
Result<const Json*> WireMaybe(const Json& json, const char* key);

Json WireError(const std::optional<Error>& error);
Result<std::optional<Error>> ReadWireError(const Json& json);

}  // namespace cupel::serve
