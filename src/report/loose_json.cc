// SPDX-License-Identifier: Apache-2.0
#include "report/loose_json.h"

#include <cmath>

namespace cupel::report {
namespace {

const Json* Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

}  // namespace

Json ObjectFrom(std::string_view text) {
  Result<Json> json = ParseJson(text, "archive");
  return json && json->is_object() ? *std::move(json) : Json::object();
}

std::string TextAt(const Json& object, const char* key, size_t max) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_string()) return "";
  return Bounded(member->get_ref<const std::string&>(), max);
}

std::optional<double> NumberAt(const Json& object, const char* key) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_number()) return std::nullopt;
  const double value = member->get<double>();
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

std::optional<int64_t> IntAt(const Json& object, const char* key) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_number_integer()) return std::nullopt;
  return member->get<int64_t>();
}

std::optional<bool> BoolAt(const Json& object, const char* key) {
  const Json* member = Member(object, key);
  if (member == nullptr || !member->is_boolean()) return std::nullopt;
  return member->get<bool>();
}

std::vector<std::string> TextsAt(const Json& object, const char* key, size_t max) {
  std::vector<std::string> texts;
  for (const Json& item : ListAt(object, key)) {
    if (texts.size() == max) break;
    if (item.is_string()) texts.push_back(Bounded(item.get_ref<const std::string&>()));
    if (item.is_number_integer()) texts.push_back(item.dump());
  }
  return texts;
}

const Json& MemberAt(const Json& object, const char* key) {
  static const Json null;
  const Json* member = Member(object, key);
  return member != nullptr ? *member : null;
}

const Json& ListAt(const Json& object, const char* key) {
  static const Json empty = Json::array();
  const Json* member = Member(object, key);
  return member != nullptr && member->is_array() ? *member : empty;
}

const Json& ObjectAt(const Json& object, const char* key) {
  static const Json empty = Json::object();
  const Json* member = Member(object, key);
  return member != nullptr && member->is_object() ? *member : empty;
}

}  // namespace cupel::report
