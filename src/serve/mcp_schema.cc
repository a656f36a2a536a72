// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp_schema.h"

#include <fmt/format.h>

#include <algorithm>

namespace cupel::serve {
namespace {

tl::unexpected<Error> Wrong(std::string_view where, const std::string& must) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{} must be {}", where, must));
}

bool HasType(const Json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  CHECK(type == "number");
  return value.is_number();
}

/// Checks `value` against the bounds in `schema`; `least` and `most` are the keys of the bounds.
Status CheckBounds(const Json& schema, const char* least, const char* most, double value,
                   std::string_view where) {
  const double from = schema.value(least, -1e300), to = schema.value(most, 1e300);
  if (value < from) return Wrong(where, fmt::format("at least {}", from));
  if (value > to) return Wrong(where, fmt::format("at most {}", to));
  return {};
}

/// In Unicode characters, as JSON Schema counts. The parser has checked that `text` is UTF-8.
size_t Length(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

Status CheckMembers(const Json& schema, const Json& value, std::string_view where) {
  const Json properties = schema.value("properties", Json::object());
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get_ref<const std::string&>())) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} needs \"{}\"", where, name.get_ref<const std::string&>()));
    }
  }
  for (const auto& [name, member] : value.items()) {
    if (const auto known = properties.find(name); known != properties.end()) {
      TRY(CheckAgainst(*known, member, fmt::format("\"{}\"", name)));
      continue;
    }
    if (schema.value("additionalProperties", true)) continue;
    std::string names;
    for (const auto& [other, unused] : properties.items()) names += ", " + other;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has no \"{}\"", where, name.substr(0, 60)),
                "it may have " + (names.empty() ? "no members" : names.substr(2)));
  }
  return {};
}

}  // namespace

Status CheckAgainst(const Json& schema, const Json& value, std::string_view where) {
  if (const auto type = schema.find("type"); type != schema.end()) {
    const auto& name = type->get_ref<const std::string&>();
    if (!HasType(value, name)) {
      const bool vowel = name.find_first_of("aio") == 0;
      return Wrong(where, fmt::format("{} {}", vowel ? "an" : "a", name));
    }
  }
  if (const auto values = schema.find("enum"); values != schema.end()) {
    if (std::find(values->begin(), values->end(), value) == values->end()) {
      return Wrong(where, "one of " + DumpJson(*values));
    }
  }
  if (value.is_number()) {
    TRY(CheckBounds(schema, "minimum", "maximum", value.get<double>(), where));
  }
  if (value.is_string()) {
    const auto length = static_cast<double>(Length(value.get_ref<const std::string&>()));
    TRY(CheckBounds(schema, "minLength", "maxLength", length,
                    fmt::format("the length of {}", where)));
  }
  if (value.is_array()) {
    const auto size = static_cast<double>(value.size());
    TRY(CheckBounds(schema, "minItems", "maxItems", size, fmt::format("the length of {}", where)));
    const Json items = schema.value("items", Json::object());
    for (size_t i = 0; i < value.size(); ++i) {
      TRY(CheckAgainst(items, value[i], fmt::format("{}[{}]", where, i)));
    }
  }
  if (value.is_object()) TRY(CheckMembers(schema, value, where));
  return {};
}

}  // namespace cupel::serve
