// SPDX-License-Identifier: Apache-2.0
#include "trace/arguments.h"

#include <string_view>
#include <utility>

#include "base/json.h"
#include "plan/json_parts.h"
#include "plan/limits.h"

namespace cupel::trace {
namespace {

using record::Argument;
using Kind = Argument::Kind;

constexpr std::string_view kArgument = "an argument";
constexpr int kMostDepth = 4;

Json Write(const Argument& argument) {
  switch (argument.kind) {
    case Kind::kNone:
      return Json{{"kind", "none"}};
    case Kind::kBool:
      return Json{{"kind", "bool"}, {"value", argument.integer != 0}};
    case Kind::kInt:
      return Json{{"kind", "int"}, {"value", argument.integer}};
    case Kind::kDouble:
      return Json{{"kind", "float"}, {"value", plan::WriteNumber(argument.number)}};
    case Kind::kString:
      return Json{{"kind", "string"}, {"value", argument.text}};
    case Kind::kTuple:
      return Json{{"kind", "tuple"}, {"items", WriteArguments(argument.items)}};
    case Kind::kTensor:
      break;
  }
  Json json{{"kind", "tensor"},          {"dtype", Name(argument.dtype)},
            {"shape", argument.shape},   {"strides", argument.strides},
            {"offset", argument.offset}, {"bytes", argument.storage_bytes}};
  if (!argument.value.empty()) json["value"] = Base64Encode(argument.value);
  return json;
}

Result<std::vector<Argument>> ReadList(const Json& json, int depth);

Result<Argument> ReadTensor(const Json& json) {
  Argument argument;
  argument.kind = Kind::kTensor;
  TRY_ASSIGN(const plan::View view, plan::ReadView(json, kArgument));
  TRY_ASSIGN(const int64_t bytes, JsonInt(json, "bytes", kArgument));
  if (bytes < 0 || static_cast<uint64_t>(bytes) > plan::kMaxBufferBytes ||
      view.address.offset % SizeOf(view.dtype) != 0) {
    return Fail(ErrorCode::kInvalidArgument, "a tensor's memory is out of range");
  }
  argument.dtype = view.dtype;
  argument.shape = view.shape;
  argument.strides = view.strides;
  argument.offset = view.address.offset / SizeOf(view.dtype);
  argument.storage_bytes = static_cast<uint64_t>(bytes);
  if (json.contains("value")) {
    TRY_ASSIGN(const std::string value, JsonString(json, "value", kArgument));
    TRY_ASSIGN(argument.value, Base64Decode(value, kArgument));
    if (argument.value.size() != static_cast<size_t>(SizeOf(view.dtype))) {
      return Fail(ErrorCode::kInvalidArgument, "a value has another size than its element");
    }
  }
  return argument;
}

Result<Argument> Read(const Json& json, int depth) {
  Argument argument;
  TRY_ASSIGN(const std::string kind, JsonString(json, "kind", kArgument));
  if (kind == "tensor") return ReadTensor(json);
  if (kind == "none") return argument;
  if (kind == "bool") {
    argument.kind = Kind::kBool;
    TRY_ASSIGN(argument.integer, JsonBool(json, "value", kArgument));
  } else if (kind == "int") {
    argument.kind = Kind::kInt;
    TRY_ASSIGN(argument.integer, JsonInt(json, "value", kArgument));
  } else if (kind == "float") {
    argument.kind = Kind::kDouble;
    TRY_ASSIGN(argument.number, plan::ReadNumber(json, "value", kArgument));
  } else if (kind == "string") {
    argument.kind = Kind::kString;
    TRY_ASSIGN(argument.text, JsonString(json, "value", kArgument));
  } else {
    argument.kind = Kind::kTuple;
    TRY_ASSIGN(const Json* items, JsonArray(json, "items", kArgument));
    TRY_ASSIGN(argument.items, ReadList(*items, depth - 1));
  }
  return argument;
}

Result<std::vector<Argument>> ReadList(const Json& json, int depth) {
  if (depth == 0 || json.size() > plan::kMaxOperatorValues) {
    return Fail(ErrorCode::kInvalidArgument, "a list of arguments is too long or too deep");
  }
  std::vector<Argument> arguments;
  for (const Json& item : json) {
    TRY_ASSIGN(arguments.emplace_back(), Read(item, depth));
  }
  return arguments;
}

}  // namespace

Json WriteArguments(const std::vector<Argument>& arguments) {
  Json list = Json::array();
  for (const Argument& argument : arguments) list.push_back(Write(argument));
  return list;
}

Result<std::vector<Argument>> ReadArguments(const Json& json) { return ReadList(json, kMostDepth); }

}  // namespace cupel::trace
