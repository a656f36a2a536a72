// SPDX-License-Identifier: Apache-2.0
#include "serve/wire.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error_json.h"
#include "base/hash.h"
#include "base/parse_number.h"

namespace cupel::serve {
namespace {

tl::unexpected<Error> Malformed(std::string what) {
  return Fail(ErrorCode::kInvalidArgument, std::move(what));
}

}  // namespace

Result<std::string> WireText(const Json& json, const char* key, size_t longest) {
  TRY_ASSIGN(std::string text, JsonString(json, key, "message"));
  if (text.size() > longest) {
    return Malformed(fmt::format("message.{} is longer than {} bytes", key, longest));
  }
  return text;
}

Result<int64_t> WireCount(const Json& json, const char* key) {
  TRY_ASSIGN(const int64_t count, JsonInt(json, key, "message"));
  if (count < 0) return Malformed(fmt::format("message.{} is negative", key));
  return count;
}

Result<std::vector<std::string>> WireTexts(const Json& json, const char* key, size_t most) {
  TRY_ASSIGN(const Json* list, JsonArray(json, key, "message"));
  if (list->size() > most) return Malformed(fmt::format("message.{} is too long", key));
  std::vector<std::string> texts;
  for (const Json& item : *list) {
    if (!item.is_string()) {
      return Malformed(fmt::format("message.{} must contain only strings", key));
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

Json WireSeed(const std::optional<uint64_t>& seed) {
  return seed ? Json(fmt::format("{}", *seed)) : Json();
}

Result<uint64_t> ParseSeed(const std::string& text) {
  if (const auto seed = ParseNumber<uint64_t>(text)) return *seed;
  return Malformed("message: a seed is not a decimal number as a string");
}

Result<std::optional<uint64_t>> ReadWireSeed(const Json& json, const char* key) {
  TRY_ASSIGN(const Json* member, WireMaybe(json, key));
  if (member == nullptr) return std::optional<uint64_t>();
  TRY_ASSIGN(const std::string text, WireText(json, key, 20));
  TRY_ASSIGN(const uint64_t seed, ParseSeed(text));
  return std::optional<uint64_t>(seed);
}

Result<std::string> WireHash(const Json& json, const char* key, bool may_be_empty) {
  TRY_ASSIGN(std::string text, WireText(json, key, 64));
  if (text.empty() && may_be_empty) return text;
  if (!IsSha256Hex(text)) return Malformed(fmt::format("message.{} is not a SHA-256 hash", key));
  return text;
}

Result<const Json*> WireMaybe(const Json& json, const char* key) {
  const auto member = json.find(key);
  if (member == json.end()) return Malformed(fmt::format("message.{} is missing", key));
  return member->is_null() ? nullptr : &*member;
}

Json WireError(const std::optional<Error>& error) { return error ? ErrorToJson(*error) : Json(); }

Result<std::optional<Error>> ReadWireError(const Json& json) {
  TRY_ASSIGN(const Json* member, WireMaybe(json, "error"));
  if (member == nullptr) return std::optional<Error>();
  TRY_ASSIGN(const Json* object, JsonObject(json, "error", "message"));
  TRY_ASSIGN(const std::string code, WireText(*object, "code", 64));
  Error error;
  error.code = ErrorCodeNamed(code);
  TRY_ASSIGN(error.message, WireText(*object, "message"));
  TRY_ASSIGN(error.remedy, WireText(*object, "remedy"));
  return std::optional<Error>(std::move(error));
}

}  // namespace cupel::serve
