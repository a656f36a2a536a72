// SPDX-License-Identifier: Apache-2.0
#include "oracle/filter_reply.h"

#include <fmt/format.h>

#include <cmath>

#include "oracle/reply.h"

namespace cupel::oracle {
namespace {

constexpr char kFilter[] = "filter.py";
constexpr size_t kMaxItems = 4096;

Result<const Json*> List(const Json& object, const char* key) {
  TRY_ASSIGN(const Json* list, JsonArray(object, key, kFilter));
  if (list->size() > kMaxItems)
    return InvalidReply(kFilter, fmt::format("{} of {}", list->size(), key));
  for (const Json& item : *list) {
    if (!item.is_object() && !item.is_string())
      return InvalidReply(kFilter, fmt::format("an item of {}", key));
  }
  return list;
}

bool IsNull(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_null();
}

/// A number of at least 0, or nullopt if the member is null.
Result<std::optional<double>> DeviationAt(const Json& object, const char* key) {
  if (IsNull(object, key)) return std::optional<double>();
  TRY_ASSIGN(const double value, JsonNumber(object, key, kFilter));
  if (!(value >= 0)) return InvalidReply(kFilter, fmt::format("{} is {}", key, value));
  return std::optional<double>(value);
}

Result<std::vector<std::string>> Texts(const Json& object, const char* key) {
  TRY_ASSIGN(const Json* list, List(object, key));
  std::vector<std::string> texts;
  for (const Json& item : *list) {
    TRY_ASSIGN(std::string text, ReplyText(Json{{"item", item}}, "item", kFilter));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<OutputMeasures> ReadOutput(const Json& json) {
  OutputMeasures output;
  TRY_ASSIGN(output.name, ReplyText(json, "name", kFilter));
  TRY_ASSIGN(output.dtype, ReplyText(json, "dtype", kFilter));
  TRY_ASSIGN(output.shape, JsonIntList(json, "shape", kFilter));
  TRY_ASSIGN(output.finite, JsonNumber(json, "finite", kFilter));
  TRY_ASSIGN(output.lowest, JsonNumber(json, "lowest", kFilter));
  TRY_ASSIGN(output.highest, JsonNumber(json, "highest", kFilter));
  TRY_ASSIGN(const std::optional<double> scale, DeviationAt(json, "scale"));
  if (!scale) return InvalidReply(kFilter, "an output without a scale");
  output.scale = *scale;
  TRY_ASSIGN(output.seeds_std, DeviationAt(json, "seeds_std"));
  TRY_ASSIGN(output.inputs_std, DeviationAt(json, "inputs_std"));
  TRY_ASSIGN(output.weights_std, DeviationAt(json, "weights_std"));
  TRY_ASSIGN(const Json* axes, List(json, "axes"));
  for (const Json& item : *axes) {
    OutputMeasures::Axis axis;
    TRY_ASSIGN(axis.axis, JsonInt(item, "axis", kFilter));
    TRY_ASSIGN(axis.size, JsonInt(item, "size", kFilter));
    TRY_ASSIGN(axis.std, JsonNumber(item, "std", kFilter));
    output.axes.push_back(axis);
  }
  TRY_ASSIGN(output.constant, JsonBool(json, "constant", kFilter));
  if (!IsNull(json, "equals")) {
    TRY_ASSIGN(output.equals, ReplyText(json, "equals", kFilter));
  }
  return output;
}

Result<ArgumentMeasures> ReadArgument(const Json& json) {
  ArgumentMeasures argument;
  TRY_ASSIGN(argument.name, ReplyText(json, "name", kFilter));
  TRY_ASSIGN(argument.shape, JsonIntList(json, "shape", kFilter));
  TRY_ASSIGN(argument.is_weight, JsonBool(json, "is_weight", kFilter));
  TRY_ASSIGN(argument.fixed, JsonBool(json, "fixed", kFilter));
  if (!IsNull(json, "matters")) {
    TRY_ASSIGN(argument.matters, JsonBool(json, "matters", kFilter));
  }
  TRY_ASSIGN(argument.written, JsonBool(json, "written", kFilter));
  TRY_ASSIGN(const Json* idle, List(json, "idle"));
  for (const Json& item : *idle) {
    ArgumentMeasures::Part part;
    TRY_ASSIGN(part.axis, JsonInt(item, "axis", kFilter));
    TRY_ASSIGN(part.from, JsonInt(item, "from", kFilter));
    TRY_ASSIGN(part.to, JsonInt(item, "to", kFilter));
    argument.idle.push_back(part);
  }
  return argument;
}

Result<OperationMeasures> ReadOperation(const Json& json) {
  OperationMeasures operation;
  TRY_ASSIGN(operation.name, ReplyText(json, "operation", kFilter));
  TRY_ASSIGN(operation.file, ReplyText(json, "file", kFilter));
  TRY_ASSIGN(operation.text, ReplyText(json, "text", kFilter));
  TRY_ASSIGN(operation.module, ReplyText(json, "module", kFilter));
  TRY_ASSIGN(operation.line, JsonInt(json, "line", kFilter));
  TRY_ASSIGN(operation.calls, JsonInt(json, "calls", kFilter));
  TRY_ASSIGN(const std::string how, ReplyText(json, "how", kFilter));
  using How = OperationMeasures::How;
  for (const How candidate : {How::kInput, How::kZeros, How::kMean}) {
    if (how == Name(candidate)) operation.how = candidate;
  }
  if (how != Name(operation.how)) return InvalidReply(kFilter, fmt::format("how is \"{}\"", how));
  TRY_ASSIGN(operation.only_for, Texts(json, "only_for"));
  return operation;
}

template <typename T>
Status ReadAll(const Json& object, const char* key, Result<T> (*read)(const Json&),
               std::vector<T>& into) {
  TRY_ASSIGN(const Json* list, List(object, key));
  for (const Json& item : *list) {
    TRY_ASSIGN(T value, read(item));
    into.push_back(std::move(value));
  }
  return {};
}

Result<TaskMeasures> ReadTask(const Json& reply) {
  TaskMeasures measures;
  TRY(ReadAll(reply, "outputs", ReadOutput, measures.outputs));
  if (measures.outputs.empty()) return InvalidReply(kFilter, "no output");
  TRY(ReadAll(reply, "arguments", ReadArgument, measures.arguments));
  TRY_ASSIGN(measures.has_weights, JsonBool(reply, "has_weights", kFilter));
  TRY_ASSIGN(measures.weights_vary, JsonBool(reply, "weights_vary", kFilter));
  TRY_ASSIGN(const Json* operations, JsonObject(reply, "operations", kFilter));
  if (!IsNull(*operations, "total")) {
    TRY_ASSIGN(measures.operations, JsonInt(*operations, "total", kFilter));
  }
  TRY_ASSIGN(measures.operations_tried, JsonInt(*operations, "tried", kFilter));
  TRY(ReadAll(*operations, "redundant", ReadOperation, measures.redundant));
  TRY_ASSIGN(measures.unfinished, ReplyText(reply, "unfinished", kFilter));
  TRY_ASSIGN(measures.warnings, Texts(reply, "warnings"));
  TRY_ASSIGN(measures.torch_version, ReplyText(reply, "torch", kFilter));
  TRY_ASSIGN(measures.seconds, JsonNumber(reply, "seconds", kFilter));
  return measures;
}

}  // namespace

Result<MeasureOutcome> ReadMeasures(const Json& reply) {
  if (reply.contains("failure")) {
    TRY_ASSIGN(std::string why, ReplyText(reply, "failure", kFilter));
    return MeasureOutcome(SettingFailure{std::move(why)});
  }
  if (reply.contains("too_much")) {
    TRY_ASSIGN(std::string why, ReplyText(reply, "too_much", kFilter));
    return MeasureOutcome(TooMuch{std::move(why)});
  }
  TRY_ASSIGN(TaskMeasures measures, ReadTask(reply));
  return MeasureOutcome(std::move(measures));
}

}  // namespace cupel::oracle
