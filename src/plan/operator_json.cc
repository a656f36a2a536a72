// SPDX-License-Identifier: Apache-2.0
#include "plan/operator_json.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/json.h"
#include "plan/json_parts.h"
#include "plan/limits.h"

namespace cupel::plan {
namespace {

struct ValueWriter {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool value) const { return value; }
  Json operator()(int64_t value) const { return Json{{"int", value}}; }
  Json operator()(double value) const { return Json{{"float", WriteNumber(value)}}; }
  Json operator()(const std::string& text) const { return text; }
  Json operator()(const View& view) const { return Json{{"view", Write(view)}}; }
  Json operator()(const std::vector<OperatorValue>& items) const {
    Json list = Json::array();
    for (const OperatorValue& item : items) list.push_back(WriteValue(item));
    return Json{{"list", std::move(list)}};
  }
};

Result<OperatorValue> ReadValue(const Json& json, int depth, std::string_view what) {
  OperatorValue value;
  if (json.is_null()) return value;
  if (json.is_boolean()) {
    value.data = json.get<bool>();
  } else if (json.is_string()) {
    std::string text = json.get<std::string>();
    if (text.size() > kMaxNameBytes) return Bad<OperatorValue>(what, "a text is too long");
    value.data = std::move(text);
  } else if (!json.is_object()) {
    return Bad<OperatorValue>(what, "an argument of an operator has an unknown form");
  } else if (json.contains("int")) {
    TRY_ASSIGN(value.data, JsonInt(json, "int", what));
  } else if (json.contains("float")) {
    TRY_ASSIGN(value.data, ReadNumber(json, "float", what));
  } else if (json.contains("view")) {
    TRY_ASSIGN(const Json* view, JsonObject(json, "view", what));
    TRY_ASSIGN(value.data, ReadView(*view, what));
  } else {
    TRY_ASSIGN(const Json* list, JsonArray(json, "list", what));
    if (depth == 0 || list->size() > kMaxOperatorValues) {
      return Bad<OperatorValue>(what, "a list of an operator is too long or too deep");
    }
    std::vector<OperatorValue> items;
    for (const Json& item : *list) {
      TRY_ASSIGN(items.emplace_back(), ReadValue(item, depth - 1, what));
    }
    value.data = std::move(items);
  }
  return value;
}

}  // namespace

Json WriteValue(const OperatorValue& value) { return std::visit(ValueWriter{}, value.data); }

Json WriteOperator(const Operator& work) {
  Json arguments = Json::array(), results = Json::array();
  for (const OperatorValue& value : work.arguments) arguments.push_back(WriteValue(value));
  for (const View& view : work.results) {
    results.push_back(view.address.buffer == kNoneOutput ? Json() : Write(view));
  }
  return Json{{"name", work.name},
              {"arguments", std::move(arguments)},
              {"mutated", work.mutated},
              {"results", std::move(results)}};
}

Result<Operator> ReadOperator(const Json& json, std::string_view what) {
  constexpr int kDepth = 2;
  Operator work;
  TRY_ASSIGN(work.name, JsonString(json, "name", what));
  TRY_ASSIGN(const Json* arguments, JsonArray(json, "arguments", what));
  TRY_ASSIGN(const auto mutated, JsonIntList(json, "mutated", what));
  TRY_ASSIGN(const Json* results, JsonArray(json, "results", what));
  if (arguments->size() > kMaxOperatorValues || results->size() > kMaxOperatorValues) {
    return Bad<Operator>(what, "an operator has too many arguments or results");
  }
  for (const Json& argument : *arguments) {
    TRY_ASSIGN(work.arguments.emplace_back(), ReadValue(argument, kDepth, what));
  }
  for (const int64_t index : mutated) {
    if (index < 0 || static_cast<size_t>(index) >= work.arguments.size()) {
      return Bad<Operator>(what, "\"mutated\" names a missing argument");
    }
    work.mutated.push_back(static_cast<int>(index));
  }
  for (const Json& result : *results) {
    View& view = work.results.emplace_back();
    view.address.buffer = kNoneOutput;
    if (!result.is_null()) {
      TRY_ASSIGN(view, ReadView(result, what));
    }
  }
  return work;
}

}  // namespace cupel::plan
