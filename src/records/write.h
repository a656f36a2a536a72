// Writes records as JSON from their field lists (fields.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"
#include "records/counters.h"
#include "records/fields.h"
#include "records/json.h"

namespace cupel::records {

template <HasFields T>
Json Write(const T& record);
template <typename T>
Json Write(const std::optional<T>& value);
template <typename T>
Json Write(const std::vector<T>& items);

inline Json Write(bool value) { return value; }
template <typename T>
  requires(std::is_integral_v<T>)
Json Write(T value) {
  return value;
}
/// JSON has no infinities: they become text, because null would hide them.
inline Json Write(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}
inline Json Write(const std::string& text) { return text; }
inline Json Write(std::string_view text) { return std::string(text); }
template <std::same_as<Json> T>
Json Write(const T& json) {
  return json;
}
inline Json Write(const plan::Dim3& dim) { return Json::array({dim.x, dim.y, dim.z}); }

/// Classes without any instruction are left out.
inline Json Write(const InstructionMix& mix) {
  Json json = Json::object();
  for (size_t i = 0; i < mix.size(); ++i) {
    if (mix[i] != 0) json[Name(static_cast<InstructionClass>(i))] = mix[i];
  }
  return json;
}
/// Names and numbers, as an object.
inline Json Write(const std::vector<std::pair<std::string, double>>& numbers) {
  Json json = Json::object();
  for (const auto& [name, number] : numbers) {
    json[name] = std::isfinite(number) ? Json(number) : Json();
  }
  return json;
}
/// With its digest.
inline Json Write(const Verdict& verdict) { return ToJson(verdict); }

template <typename T>
Json Write(const Decimal<T>& number) {
  return std::to_string(number.value);
}
template <typename T>
Json Write(const OrNull<T>& number) {
  return std::isfinite(number.value) ? Json(number.value) : Json();
}

template <HasNames T>
Json Write(T value) {
  return std::string(NameOf(value));
}

template <typename T>
Json Write(const std::optional<T>& value) {
  return value ? Write(*value) : Json();
}

template <typename T>
Json Write(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(Write(item));
  return list;
}

/// A visitor (fields.h).
class Writer {
 public:
  explicit Writer(Json& into) : into_(into) {}

  template <typename T>
  void operator()(const char* name, const T& member, const char*) {
    into_[name] = Write(member);
  }
  template <typename T>
  void Since(const char* name, const T& member, const char*) {
    into_[name] = Write(member);
  }
  template <typename T>
  void If(bool condition, const char* name, const T& member, const char*) {
    if (condition) into_[name] = Write(member);
  }
  template <typename T>
  void Later(const char*, const T&, const char*) {}
  template <typename T, typename Value>
  void As(const char* name, const T&, const Value& value, const char*) {
    into_[name] = Write(value());
  }
  template <typename Value>
  void Derived(const char* name, const Value& value, const char*, const char*) {
    into_[name] = Write(value());
  }
  template <typename Members>
  void Group(const char* name, const char*, const Members& members, bool = true) {
    Json group = Json::object();
    Writer writer(group);
    members(writer);
    into_[name] = std::move(group);
  }
  template <typename Item, typename T>
  void ById(const char* name, const std::vector<Item>& list, std::string Item::* id,
            T Item::* member, const char*) {
    Json object = Json::object();
    for (const Item& item : list) object[item.*id] = Write(item.*member);
    into_[name] = std::move(object);
  }

 private:
  Json& into_;
};

template <HasFields T>
Json Write(const T& record) {
  Json json = Json::object();
  Writer writer(json);
  Fields<T>::Visit(writer, record);
  return json;
}

}  // namespace cupel::records
