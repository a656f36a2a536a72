// Documents records as Markdown tables from their field lists (fields.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"
#include "records/fields.h"

namespace cupel::records {

/// The JSON type of a member: "text", "list of integers", "`error` or `warning`".
template <typename T>
std::string TypeText() {
  if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_integral_v<T>) {
    return "integer";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "text";
  } else if constexpr (std::is_same_v<T, plan::Dim3>) {
    return "three integers";
  } else if constexpr (HasNames<T>) {
    std::string text;
    constexpr size_t kCount = std::size(Names<T>::kAll);
    for (size_t i = 0; i < kCount; ++i) {
      text += i == 0 ? "" : i + 1 == kCount ? " or " : ", ";
      text += "`" + std::string(Names<T>::kAll[i].second) + "`";
    }
    return text;
  } else {
    return "object";
  }
}

template <typename T>
struct TypeTextOf {
  static std::string Text() { return TypeText<T>(); }
};
template <typename T>
struct TypeTextOf<std::vector<T>> {
  static std::string Text() {
    const std::string item = TypeTextOf<T>::Text();
    return HasNames<T> ? "list of " + item : "list of " + item + "s";
  }
};
template <>
struct TypeTextOf<std::vector<std::pair<std::string, double>>> {
  static std::string Text() { return "object of numbers"; }
};
template <typename T>
struct TypeTextOf<std::optional<T>> {
  static std::string Text() { return TypeTextOf<T>::Text() + " or null"; }
};
template <typename T>
struct TypeTextOf<Decimal<T>> {
  static std::string Text() { return "decimal text"; }
};
template <typename T>
struct TypeTextOf<OrNull<T>> {
  static std::string Text() { return "number or null"; }
};

/// A visitor (fields.h) that collects one line of a table for each member.
class Documenter {
 public:
  template <typename T>
  void operator()(const char* name, const T&, const char* meaning) {
    Row(name, TypeTextOf<T>::Text(), meaning);
  }
  template <typename T>
  void Since(const char* name, const T&, const char* meaning) {
    Row(name, TypeTextOf<T>::Text(), meaning);
  }
  template <typename T>
  void If(bool, const char* name, const T&, const char* meaning) {
    Row(name, TypeTextOf<T>::Text() + ", optional", meaning);
  }
  template <typename T>
  void If(bool, const char* name, const std::optional<T>&, const char* meaning) {
    Row(name, TypeTextOf<T>::Text() + ", optional", meaning);
  }
  template <typename T>
  void Later(const char* name, const T&, const char* meaning) {
    Row(name, TypeTextOf<T>::Text(), meaning);
  }
  template <typename T, typename Value>
  void As(const char* name, const T&, const Value&, const char* meaning) {
    Row(name, TypeTextOf<T>::Text(), meaning);
  }
  template <typename Value>
  void Derived(const char* name, const Value&, const char* type, const char* meaning) {
    Row(name, type, meaning);
  }
  template <typename Members>
  void Group(const char* name, const char* meaning, const Members& members,
             bool is_required = true) {
    Row(name, is_required ? "object" : "object, optional", meaning);
    Documenter inner;
    inner.prefix_ = prefix_ + name + ".";
    members(inner);
    rows_ += inner.rows_;
  }
  template <typename Item, typename T>
  void ById(const char* name, const std::vector<Item>&, std::string Item::*, T Item::*,
            const char* meaning) {
    Row(name, "object", meaning);
  }

  std::string Table() const { return "| member | type | meaning |\n|---|---|---|\n" + rows_; }

 private:
  void Row(const char* name, const std::string& type, const char* meaning) {
    rows_ += "| `" + prefix_ + name + "` | " + type + " | " + meaning + " |\n";
  }

  std::string prefix_, rows_;
};

template <HasFields T>
std::string Documentation() {
  Documenter documenter;
  T record{};
  Fields<T>::Visit(documenter, record);
  return documenter.Table();
}

}  // namespace cupel::records
