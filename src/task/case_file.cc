// SPDX-License-Identifier: Apache-2.0
#include "task/case_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "base/json.h"
#include "base/parse_number.h"
#include "task/safetensors.h"

namespace cupel::task {
namespace {

constexpr int kMaxTupleDepth = 8;
constexpr size_t kMaxArguments = 4096;

tl::unexpected<Error> NotACase(std::string_view what, std::string_view why) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: not a case: {}", what, why));
}

Result<Tensor> FindTensor(const Safetensors& file, const Json& object, const char* key,
                          const std::string& what) {
  TRY_ASSIGN(const std::string name, JsonString(object, key, what));
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end()) return NotACase(what, fmt::format("no tensor \"{}\"", name));
  return found->second;
}

Result<Tensor> ReadTensorArgument(const Safetensors& file, const Json& entry,
                                  const std::string& what) {
  TRY_ASSIGN(Tensor tensor, FindTensor(file, entry, "storage", what));
  TRY_ASSIGN(const std::string dtype, JsonString(entry, "dtype", what));
  if (DTypeFromName(dtype) != tensor.dtype) return NotACase(what, "dtype differs from its storage");
  TRY_ASSIGN(tensor.shape, JsonIntList(entry, "shape", what));
  TRY_ASSIGN(tensor.strides, JsonIntList(entry, "strides", what));
  TRY_ASSIGN(tensor.offset, JsonInt(entry, "offset", what));
  if (!FitsStorage(tensor)) return NotACase(what, "the view reaches outside its storage");
  return tensor;
}

template <typename T>
Result<T> NumberOf(const std::string& text, const std::string& what) {
  if (const auto value = ParseNumber<T>(text)) return *value;
  return NotACase(what, fmt::format("\"{}\" is not a number in range", text.substr(0, 40)));
}

/// Python's float.hex(): "0x1.8p+1", "inf", "nan".
Result<double> ParseHexFloat(const std::string& text, const std::string& what) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return NotACase(what, "not a number in float.hex() form");
  return value;
}

Result<Value> ReadValue(const Safetensors& file, const Json& entry, const std::string& what,
                        int depth) {
  TRY_ASSIGN(const std::string kind, JsonString(entry, "kind", what));
  Value value;
  if (kind == "none") {
    value.data = None{};
  } else if (kind == "bool") {
    TRY_ASSIGN(value.data, JsonBool(entry, "value", what));
  } else if (kind == "int") {
    TRY_ASSIGN(const std::string text, JsonString(entry, "value", what));
    TRY_ASSIGN(value.data, NumberOf<int64_t>(text, what));
  } else if (kind == "float") {
    TRY_ASSIGN(const std::string text, JsonString(entry, "value", what));
    TRY_ASSIGN(value.data, ParseHexFloat(text, what));
  } else if (kind == "string") {
    TRY_ASSIGN(value.data, JsonString(entry, "value", what));
  } else if (kind == "tensor") {
    TRY_ASSIGN(value.data, ReadTensorArgument(file, entry, what));
  } else if (kind == "tuple") {
    if (depth >= kMaxTupleDepth) return NotACase(what, "tuples nested too deeply");
    TRY_ASSIGN(const Json* items, JsonArray(entry, "items", what));
    std::vector<Value> values;
    for (const Json& item : *items) {
      TRY_ASSIGN(Value inner, ReadValue(file, item, what, depth + 1));
      values.push_back(std::move(inner));
    }
    value.data = std::move(values);
  } else {
    return NotACase(what, fmt::format("unknown kind \"{}\"", kind.substr(0, 40)));
  }
  return value;
}

Result<std::vector<Tensor>> ReadNeighbours(const Safetensors& file, const Json& entry,
                                           const Output& output, const std::string& what) {
  constexpr size_t kMost = 19;
  TRY_ASSIGN(const Json* names, JsonArray(entry, "neighbours", what));
  if (names->size() > kMost || (IsFloating(output.dtype) && !names->empty())) {
    return NotACase(what, "neighbours are at most 19, of integers");
  }
  std::vector<Tensor> found;
  for (size_t i = 0; i < names->size(); ++i) {
    const Json named = {{"tensor", (*names)[i]}};
    TRY_ASSIGN(Tensor tensor, FindTensor(file, named, "tensor", what));
    if (tensor.dtype != output.dtype || tensor.shape != output.shape) {
      return NotACase(what, "a neighbour has another dtype or shape than the output");
    }
    found.push_back(std::move(tensor));
  }
  return found;
}

Result<Ranking> ReadRanking(const Safetensors& file, const Json& entry, const Output& output,
                            const std::string& what) {
  TRY_ASSIGN(const Json* json, JsonObject(entry, "ranking", what));
  Ranking ranking;
  TRY_ASSIGN(ranking.labels, FindTensor(file, *json, "labels", what));
  TRY_ASSIGN(const int64_t dim, JsonInt(*json, "dim", what));
  std::vector<int64_t> rows = ranking.labels.shape, of_output = output.shape;
  if (dim < 0 || dim >= static_cast<int64_t>(rows.size())) {
    return NotACase(what, "a ranking has no such dimension");
  }
  rows.erase(rows.begin() + dim);
  if (of_output.size() == ranking.labels.shape.size()) of_output.erase(of_output.begin() + dim);
  if (IsFloating(output.dtype) || ranking.labels.dtype != DType::kI32 || rows != of_output) {
    return NotACase(what, "a ranking does not fit its output");
  }
  ranking.dim = static_cast<int>(dim);
  return ranking;
}

Result<Output> ReadOutput(const Safetensors& file, const Json& entry, const std::string& what) {
  Output output;
  TRY_ASSIGN(output.name, JsonString(entry, "name", what));
  TRY_ASSIGN(output.is_none, JsonBool(entry, "none", what));
  if (output.is_none) return output;
  TRY_ASSIGN(const std::string dtype, JsonString(entry, "dtype", what));
  const std::optional<DType> known = DTypeFromName(dtype);
  if (!known) return NotACase(what, "unknown dtype");
  output.dtype = *known;
  if (entry.contains("argument")) {
    TRY_ASSIGN(const int64_t argument, JsonInt(entry, "argument", what));
    if (argument < 0 || argument >= static_cast<int64_t>(kMaxArguments)) {
      return NotACase(what, "an output's argument is out of range");
    }
    output.argument = static_cast<int>(argument);
  }
  TRY_ASSIGN(output.shape, JsonIntList(entry, "shape", what));
  TRY_ASSIGN(output.reference, FindTensor(file, entry, "reference", what));
  TRY_ASSIGN(output.truth, FindTensor(file, entry, "truth", what));
  if (entry.contains("neighbours")) {
    TRY_ASSIGN(output.neighbours, ReadNeighbours(file, entry, output, what));
  }
  if (entry.contains("rounded_truth")) {
    TRY_ASSIGN(output.rounded_truth, FindTensor(file, entry, "rounded_truth", what));
    if (output.rounded_truth->dtype != DType::kF64 || !IsFloating(output.dtype) ||
        output.rounded_truth->shape != output.shape) {
      return NotACase(what, "rounded_truth has another dtype or shape than the truth");
    }
  }
  if (entry.contains("ranking")) {
    TRY_ASSIGN(output.ranking, ReadRanking(file, entry, output, what));
  }
  TRY_ASSIGN(output.error_scale, JsonNumber(entry, "error_scale", what));
  TRY_ASSIGN(output.conditioning, JsonNumber(entry, "conditioning", what));
  if (entry.contains("rounds_to_float8")) {
    TRY_ASSIGN(output.rounds_to_float8, JsonBool(entry, "rounds_to_float8", what));
  }
  const DType truth_dtype = IsFloating(output.dtype) ? DType::kF64 : output.dtype;
  if (output.reference.dtype != output.dtype || output.truth.dtype != truth_dtype) {
    return NotACase(what, "reference or truth has the wrong dtype");
  }
  if (output.reference.shape != output.shape || output.truth.shape != output.shape) {
    return NotACase(what, "the shape of reference or truth differs from the output's");
  }
  if (!std::isfinite(output.conditioning) || output.conditioning < 0) {
    return NotACase(what, "conditioning is not a finite number of 0 or more");
  }
  if (!std::isfinite(output.error_scale) || output.error_scale < 0) {
    return NotACase(what, "error_scale is not a finite number of 0 or more");
  }
  return output;
}

/// Outputs that are arguments come last, each with the dtype and shape of its own argument.
Status CheckChanged(const Case& read, std::string_view what) {
  const std::vector<const Tensor*> leaves = TensorLeaves(read.args);
  int last = -1;
  for (size_t i = 0; i < read.outputs.size(); ++i) {
    const Output& output = read.outputs[i];
    const bool is_argument = output.argument >= 0;
    if (is_argument != (i >= read.ReturnedOutputs())) {
      return NotACase(what, "outputs that are arguments are not the last ones");
    }
    if (!is_argument) continue;
    const auto index = static_cast<size_t>(output.argument);
    if (output.argument <= last || index >= leaves.size() || leaves[index]->dtype != output.dtype ||
        leaves[index]->shape != output.shape) {
      return NotACase(what, "an output does not fit the argument that it is");
    }
    last = output.argument;
  }
  return {};
}

/// An object of whole numbers.
Result<Json> ReadDefaults(const Json& defaults, const std::string& key, const std::string& where) {
  TRY_ASSIGN(const Json* numbers, JsonObject(defaults, key.c_str(), where));
  if (numbers->size() > kMaxArguments) return NotACase(where, "too many defaults");
  for (const auto& [name, value] : numbers->items()) {
    if (!value.is_number_integer()) return NotACase(where, "a default is no whole number");
  }
  return *numbers;
}

}  // namespace

int64_t Output::Elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

size_t Case::ReturnedOutputs() const {
  size_t count = outputs.size();
  while (count > 0 && outputs[count - 1].argument >= 0) --count;
  return count;
}

Result<CallShape> ReadCallShape(const Json& json, std::span<const std::byte> zeros,
                                std::string_view what) {
  const std::string where(what);
  TRY_ASSIGN(const Json* storages, JsonArray(json, "storages", where));
  TRY_ASSIGN(const Json* args, JsonArray(json, "args", where));
  if (args->size() > kMaxArguments || storages->size() > kMaxArguments) {
    return NotACase(what, "too many arguments");
  }
  Safetensors file;
  for (const Json& entry : *storages) {
    TRY_ASSIGN(const std::string name, JsonString(entry, "name", where));
    TRY_ASSIGN(const std::string dtype, JsonString(entry, "dtype", where));
    TRY_ASSIGN(const int64_t elements, JsonInt(entry, "elements", where));
    const std::optional<DType> known = DTypeFromName(dtype);
    if (!known) return NotACase(what, "unknown dtype");
    const auto most = zeros.size() / static_cast<uint64_t>(SizeOf(*known));
    if (elements < 0 || static_cast<uint64_t>(elements) > most) {
      return NotACase(what, fmt::format("a storage of {} elements", elements));
    }
    Tensor& tensor = file.tensors[name];
    tensor.dtype = *known;
    tensor.shape = {elements};
    tensor.strides = {1};
    tensor.storage = zeros.first(static_cast<size_t>(elements * SizeOf(*known)));
  }
  CallShape shape;
  shape.zeros = zeros;
  for (size_t i = 0; i < args->size(); ++i) {
    TRY_ASSIGN(Value value, ReadValue(file, (*args)[i], fmt::format("{}: args[{}]", what, i), 0));
    shape.args.push_back(std::move(value));
  }
  if (const auto defaults = json.find("defaults"); defaults != json.end()) {
    TRY_ASSIGN(shape.default_init, ReadDefaults(*defaults, "init", where));
    TRY_ASSIGN(shape.default_inputs, ReadDefaults(*defaults, "inputs", where));
  }
  return shape;
}

Result<Case> ReadCase(os::MappedFile mapping, std::string_view what) {
  TRY_ASSIGN(const Safetensors file, ParseSafetensors(mapping.bytes(), what));
  const auto text = file.metadata.find("cupel.case");
  if (text == file.metadata.end()) return NotACase(what, "__metadata__ lacks \"cupel.case\"");
  const std::string where = fmt::format("{} (case)", what);
  TRY_ASSIGN(const Json json, ParseJson(text->second, where));
  TRY_ASSIGN(const int64_t version, JsonInt(json, "version", where));
  if (version != 1) return NotACase(what, fmt::format("unknown version {}", version));

  Case result;
  TRY_ASSIGN(result.task_name, JsonString(json, "task", where));
  TRY_ASSIGN(result.torch_version, JsonString(json, "torch", where));
  TRY_ASSIGN(const std::string seed, JsonString(json, "seed", where));
  TRY_ASSIGN(result.seed, NumberOf<uint64_t>(seed, where));
  TRY_ASSIGN(result.returns_tuple, JsonBool(json, "returns_tuple", where));
  TRY_ASSIGN(const Json* args, JsonArray(json, "args", where));
  TRY_ASSIGN(const Json* outputs, JsonArray(json, "outputs", where));
  if (args->size() > kMaxArguments || outputs->size() > kMaxArguments || outputs->empty()) {
    return NotACase(what, "too many arguments or outputs, or no outputs");
  }
  for (size_t i = 0; i < args->size(); ++i) {
    TRY_ASSIGN(Value value, ReadValue(file, (*args)[i], fmt::format("{}: args[{}]", what, i), 0));
    result.args.push_back(std::move(value));
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    TRY_ASSIGN(Output output,
               ReadOutput(file, (*outputs)[i], fmt::format("{}: outputs[{}]", what, i)));
    result.outputs.push_back(std::move(output));
  }
  TRY(CheckChanged(result, what));
  result.mapping = std::move(mapping);
  return result;
}

}  // namespace cupel::task
