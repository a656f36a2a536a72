// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

namespace cupel {
namespace {

/// The deepest nesting of brackets outside strings. Checked before parsing to bound the recursion.
int Depth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

template <typename T>
Result<T> Wrong(std::string_view what, const char* key, const char* wanted) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: \"{}\" must be {}", what, key, wanted));
}

const Json* Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

/// The parser's message quotes the text it read last, which may be the rest of a hostile file.
std::string Shown(std::string_view reason) {
  constexpr size_t kMost = 300;
  std::string text(reason.substr(0, kMost));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return reason.size() > kMost ? text + "..." : text;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view what) {
  if (text.size() > kMaxJsonBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: JSON of {} bytes is larger than the limit of {}", what,
                            text.size(), kMaxJsonBytes));
  }
  if (Depth(text) > kMaxJsonDepth) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: JSON is nested deeper than {} levels", what, kMaxJsonDepth));
  }
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    std::string_view reason = e.what();
    if (const size_t end = reason.find("] "); end != std::string_view::npos) {
      reason.remove_prefix(end + 2);
    }
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: not valid JSON: {}", what, Shown(reason)));
  }
}

std::string DumpJson(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> JsonString(const Json& object, const char* key, std::string_view what) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_string()) return Wrong<std::string>(what, key, "a string");
  return member->get<std::string>();
}

Result<int64_t> JsonInt(const Json& object, const char* key, std::string_view what) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_number_integer() ||
      (member->is_number_unsigned() && member->get<uint64_t>() > uint64_t{INT64_MAX})) {
    return Wrong<int64_t>(what, key, "an integer");
  }
  return member->get<int64_t>();
}

Result<double> JsonNumber(const Json& object, const char* key, std::string_view what) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_number()) return Wrong<double>(what, key, "a number");
  return member->get<double>();
}

Result<bool> JsonBool(const Json& object, const char* key, std::string_view what) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_boolean()) return Wrong<bool>(what, key, "true or false");
  return member->get<bool>();
}

Result<const Json*> JsonArray(const Json& object, const char* key, std::string_view what) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_array()) return Wrong<const Json*>(what, key, "an array");
  return member;
}

Result<const Json*> JsonObject(const Json& object, const char* key, std::string_view what) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_object()) return Wrong<const Json*>(what, key, "an object");
  return member;
}

Result<std::vector<int64_t>> JsonIntList(const Json& object, const char* key,
                                         std::string_view what) {
  TRY_ASSIGN(const Json* list, JsonArray(object, key, what));
  std::vector<int64_t> values;
  values.reserve(list->size());
  for (const Json& item : *list) {
    if (!item.is_number_integer() ||
        (item.is_number_unsigned() && item.get<uint64_t>() > uint64_t{INT64_MAX})) {
      return Wrong<std::vector<int64_t>>(what, key, "an array of integers");
    }
    values.push_back(item.get<int64_t>());
  }
  return values;
}

Result<std::vector<std::string>> JsonStringList(const Json& object, const char* key,
                                                std::string_view what) {
  TRY_ASSIGN(const Json* list, JsonArray(object, key, what));
  std::vector<std::string> values;
  values.reserve(list->size());
  for (const Json& item : *list) {
    if (!item.is_string()) {
      return Wrong<std::vector<std::string>>(what, key, "an array of strings");
    }
    values.push_back(item.get<std::string>());
  }
  return values;
}

std::string Base64Encode(std::string_view bytes) {
  constexpr int kVariant = sodium_base64_VARIANT_ORIGINAL;
  std::string text(sodium_base64_encoded_len(bytes.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), kVariant);
  text.pop_back();
  return text;
}

Result<std::string> Base64Decode(std::string_view text, std::string_view what) {
  std::string bytes(text.size() / 4 * 3 + 3, '\0');
  size_t size = 0;
  const char* end = nullptr;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, &end, sodium_base64_VARIANT_ORIGINAL) != 0 ||
      end != text.data() + text.size() ||
      // libsodium 1.0.18 decodes bytes above 127 as '/'.
      std::any_of(text.begin(), text.end(), [](char c) { return c < 0; })) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: not valid base64", what));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace cupel
