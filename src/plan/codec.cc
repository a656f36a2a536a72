// Plan <-> JSON, with the fields that docs/formats/plan.md lists. Bytes are base64, relocations are
// [at, buffer, offset] triples, and numbers that JSON lacks (inf, nan) are strings.
// SPDX-License-Identifier: Apache-2.0
#include "plan/codec.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "plan/json_parts.h"
#include "plan/limits.h"
#include "plan/operator_json.h"
#include "plan/tensor_map_json.h"

namespace cupel::plan {
namespace {

constexpr const char* kSchema = "cupel.plan/1";
constexpr const char* kBufferKinds[] = {"argument", "temporary", "workspace", "symbol"};

// ---- writing ----

Json Write(const Dim3& dim) { return Json::array({dim.x, dim.y, dim.z}); }

Json Write(const std::vector<Relocation>& relocations) {
  Json list = Json::array();
  for (const Relocation& r : relocations) {
    list.push_back(Json::array({r.at, r.target.buffer, r.target.offset}));
  }
  return list;
}

Json Write(const Launch& launch) {
  Json json{{"kernel", launch.kernel},
            {"grid", Write(launch.grid)},
            {"block", Write(launch.block)},
            {"cluster", Write(launch.cluster)},
            {"dynamic_shared", launch.dynamic_shared},
            {"cooperative", launch.cooperative},
            {"parameters", Base64Encode(launch.parameters)},
            {"relocations", Write(launch.relocations)}};
  if (launch.image != 0) json["image"] = launch.image;
  if (launch.early) json["early"] = true;
  if (launch.lone_clusters) json["lone_clusters"] = true;
  if (!launch.tensor_maps.empty()) json["tensor_maps"] = TensorMapsToJson(launch.tensor_maps);
  if (!launch.places.empty()) json["places"] = launch.places;
  return json;
}

Json Write(const Copy& copy) {
  return Json{{"to", Write(copy.to)}, {"from", Write(copy.from)}, {"bytes", copy.bytes}};
}

Json Write(const Upload& upload) {
  Json json{{"to", Write(upload.to)},
            {"bytes", Base64Encode(upload.bytes)},
            {"relocations", Write(upload.relocations)}};
  if (!upload.tensor_maps.empty()) json["tensor_maps"] = TensorMapsToJson(upload.tensor_maps);
  return json;
}

Json Write(const Fill& fill) {
  return Json{
      {"to", Write(fill.to)}, {"pattern", Base64Encode(fill.pattern)}, {"count", fill.count}};
}

Json Write(const CopyView& copy) {
  return Json{{"to", Write(copy.to)}, {"from", Write(copy.from)}};
}

Json Write(const Gemm& gemm) {
  Json json{{"transpose", Json::array({gemm.transpose_a, gemm.transpose_b})},
            {"mnk", Json::array({gemm.m, gemm.n, gemm.k})},
            {"alpha", WriteNumber(gemm.alpha)},
            {"beta", WriteNumber(gemm.beta)},
            {"a", Write(gemm.a)},
            {"b", Write(gemm.b)},
            {"c", Write(gemm.c)},
            {"ld", Json::array({gemm.lda, gemm.ldb, gemm.ldc})},
            {"dtypes", Json::array({Name(gemm.a_type), Name(gemm.b_type), Name(gemm.c_type)})},
            {"compute", gemm.compute},
            {"batch", gemm.batch},
            {"strides", Json::array({gemm.stride_a, gemm.stride_b, gemm.stride_c})}};
  Json pointers = Json::array();
  for (const auto& [a, b, c] : gemm.pointers) {
    pointers.push_back(Json::array({Write(a), Write(b), Write(c)}));
  }
  json["pointers"] = std::move(pointers);
  return json;
}

Json Write(const Operator& work) { return WriteOperator(work); }

const char* KindOf(const Node& node) {
  constexpr const char* kNames[] = {"launch",    "copy", "upload",  "fill",
                                    "copy_view", "gemm", "operator"};
  return kNames[node.work.index()];
}

// ---- reading ----

Result<Dim3> ReadDim(const Json& object, const char* key, std::string_view what) {
  TRY_ASSIGN(const auto list, Integers(object, key, 3, what));
  for (const int64_t value : list) {
    if (value < 0 || value > UINT32_MAX) {
      return Bad<Dim3>(what, fmt::format("\"{}\" out of range", key));
    }
  }
  return Dim3{static_cast<uint32_t>(list[0]), static_cast<uint32_t>(list[1]),
              static_cast<uint32_t>(list[2])};
}

Result<uint64_t> ReadCount(const Json& object, const char* key, std::string_view what) {
  TRY_ASSIGN(const int64_t value, JsonInt(object, key, what));
  if (value < 0) return Bad<uint64_t>(what, fmt::format("\"{}\" is negative", key));
  return static_cast<uint64_t>(value);
}

/// Absent means 0.
Result<int> ReadImage(const Json& object, std::string_view what) {
  if (!object.contains("image")) return 0;
  TRY_ASSIGN(const int64_t image, JsonInt(object, "image", what));
  if (image < 0 || image >= kMaxImages) return Bad<int>(what, "\"image\" out of range");
  return static_cast<int>(image);
}

Result<std::string> ReadBytes(const Json& object, const char* key, std::string_view what) {
  TRY_ASSIGN(const auto text, JsonString(object, key, what));
  return Base64Decode(text, fmt::format("{}.{}", what, key));
}

Result<std::vector<Relocation>> ReadRelocations(const Json& object, std::string_view what) {
  TRY_ASSIGN(const Json* list, JsonArray(object, "relocations", what));
  std::vector<Relocation> relocations;
  relocations.reserve(list->size());
  for (const Json& item : *list) {
    const Json wrapped{{"relocation", item}};
    TRY_ASSIGN(const auto triple, Integers(wrapped, "relocation", 3, what));
    if (triple[0] < 0 || triple[0] > UINT32_MAX) {
      return Bad<std::vector<Relocation>>(what, "relocation position out of range");
    }
    TRY_ASSIGN(const int buffer, BufferIndex(triple[1], what));
    relocations.push_back({static_cast<uint32_t>(triple[0]), {buffer, triple[2]}});
  }
  return relocations;
}

Result<std::vector<uint32_t>> ReadPlaces(const Json& json, std::string_view what) {
  std::vector<uint32_t> places;
  if (!json.contains("places")) return places;
  TRY_ASSIGN(const auto list, JsonIntList(json, "places", what));
  for (const int64_t place : list) {
    if (place < 0 || place > UINT32_MAX) {
      return Bad<std::vector<uint32_t>>(what, "\"places\" out of range");
    }
    places.push_back(static_cast<uint32_t>(place));
  }
  return places;
}

Result<Launch> ReadLaunch(const Json& json, std::string_view what) {
  Launch launch;
  TRY_ASSIGN(launch.kernel, JsonString(json, "kernel", what));
  TRY_ASSIGN(launch.image, ReadImage(json, what));
  TRY_ASSIGN(launch.grid, ReadDim(json, "grid", what));
  TRY_ASSIGN(launch.block, ReadDim(json, "block", what));
  TRY_ASSIGN(launch.cluster, ReadDim(json, "cluster", what));
  if (json.contains("early")) {
    TRY_ASSIGN(launch.early, JsonBool(json, "early", what));
  }
  if (json.contains("lone_clusters")) {
    TRY_ASSIGN(launch.lone_clusters, JsonBool(json, "lone_clusters", what));
  }
  TRY_ASSIGN(const uint64_t shared, ReadCount(json, "dynamic_shared", what));
  if (shared > UINT32_MAX) return Bad<Launch>(what, "\"dynamic_shared\" out of range");
  launch.dynamic_shared = static_cast<uint32_t>(shared);
  TRY_ASSIGN(launch.cooperative, JsonBool(json, "cooperative", what));
  TRY_ASSIGN(launch.parameters, ReadBytes(json, "parameters", what));
  TRY_ASSIGN(launch.relocations, ReadRelocations(json, what));
  TRY_ASSIGN(launch.tensor_maps, ReadTensorMaps(json, what));
  TRY_ASSIGN(launch.places, ReadPlaces(json, what));
  return launch;
}

Result<Copy> ReadCopy(const Json& json, std::string_view what) {
  Copy copy;
  TRY_ASSIGN(copy.to, ReadAddress(json, "to", what));
  TRY_ASSIGN(copy.from, ReadAddress(json, "from", what));
  TRY_ASSIGN(copy.bytes, ReadCount(json, "bytes", what));
  return copy;
}

Result<Upload> ReadUpload(const Json& json, std::string_view what) {
  Upload upload;
  TRY_ASSIGN(upload.to, ReadAddress(json, "to", what));
  TRY_ASSIGN(upload.bytes, ReadBytes(json, "bytes", what));
  TRY_ASSIGN(upload.relocations, ReadRelocations(json, what));
  TRY_ASSIGN(upload.tensor_maps, ReadTensorMaps(json, what));
  return upload;
}

Result<Fill> ReadFill(const Json& json, std::string_view what) {
  Fill fill;
  TRY_ASSIGN(fill.to, ReadAddress(json, "to", what));
  TRY_ASSIGN(fill.pattern, ReadBytes(json, "pattern", what));
  TRY_ASSIGN(fill.count, ReadCount(json, "count", what));
  return fill;
}

Result<CopyView> ReadCopyView(const Json& json, std::string_view what) {
  CopyView copy;
  TRY_ASSIGN(const Json* to, JsonObject(json, "to", what));
  TRY_ASSIGN(const Json* from, JsonObject(json, "from", what));
  TRY_ASSIGN(copy.to, ReadView(*to, what));
  TRY_ASSIGN(copy.from, ReadView(*from, what));
  return copy;
}

Result<std::vector<std::array<Address, 3>>> ReadPointers(const Json& json, std::string_view what) {
  using List = std::vector<std::array<Address, 3>>;
  TRY_ASSIGN(const Json* list, JsonArray(json, "pointers", what));
  List pointers;
  for (const Json& item : *list) {
    if (!item.is_array() || item.size() != 3) return Bad<List>(what, "\"pointers\": not a triple");
    const Json named{{"a", item[0]}, {"b", item[1]}, {"c", item[2]}};
    std::array<Address, 3> triple;
    TRY_ASSIGN(triple[0], ReadAddress(named, "a", what));
    TRY_ASSIGN(triple[1], ReadAddress(named, "b", what));
    TRY_ASSIGN(triple[2], ReadAddress(named, "c", what));
    pointers.push_back(triple);
  }
  return pointers;
}

Result<Gemm> ReadGemm(const Json& json, std::string_view what) {
  Gemm gemm;
  TRY_ASSIGN(const Json* transpose, JsonArray(json, "transpose", what));
  if (transpose->size() != 2 || !(*transpose)[0].is_boolean() || !(*transpose)[1].is_boolean()) {
    return Bad<Gemm>(what, "\"transpose\" must be two booleans");
  }
  gemm.transpose_a = (*transpose)[0].get<bool>();
  gemm.transpose_b = (*transpose)[1].get<bool>();
  TRY_ASSIGN(const auto mnk, Integers(json, "mnk", 3, what));
  gemm.m = mnk[0], gemm.n = mnk[1], gemm.k = mnk[2];
  TRY_ASSIGN(gemm.alpha, ReadNumber(json, "alpha", what));
  TRY_ASSIGN(gemm.beta, ReadNumber(json, "beta", what));
  TRY_ASSIGN(gemm.a, ReadAddress(json, "a", what));
  TRY_ASSIGN(gemm.b, ReadAddress(json, "b", what));
  TRY_ASSIGN(gemm.c, ReadAddress(json, "c", what));
  TRY_ASSIGN(const auto ld, Integers(json, "ld", 3, what));
  gemm.lda = ld[0], gemm.ldb = ld[1], gemm.ldc = ld[2];
  TRY_ASSIGN(const Json* dtypes, JsonArray(json, "dtypes", what));
  if (dtypes->size() != 3) return Bad<Gemm>(what, "\"dtypes\" must be three names");
  DType* const types[] = {&gemm.a_type, &gemm.b_type, &gemm.c_type};
  for (size_t i = 0; i < 3; ++i) {
    if (!(*dtypes)[i].is_string()) return Bad<Gemm>(what, "\"dtypes\" must be three names");
    TRY_ASSIGN(*types[i], ReadDType((*dtypes)[i].get<std::string>(), what));
  }
  TRY_ASSIGN(gemm.compute, JsonString(json, "compute", what));
  TRY_ASSIGN(gemm.batch, JsonInt(json, "batch", what));
  TRY_ASSIGN(const auto strides, Integers(json, "strides", 3, what));
  gemm.stride_a = strides[0], gemm.stride_b = strides[1], gemm.stride_c = strides[2];
  TRY_ASSIGN(gemm.pointers, ReadPointers(json, what));
  return gemm;
}

Result<decltype(Node::work)> ReadWork(const Json& json, const std::string& kind,
                                      std::string_view what) {
  if (kind == "launch") return ReadLaunch(json, what);
  if (kind == "copy") return ReadCopy(json, what);
  if (kind == "upload") return ReadUpload(json, what);
  if (kind == "fill") return ReadFill(json, what);
  if (kind == "copy_view") return ReadCopyView(json, what);
  if (kind == "gemm") return ReadGemm(json, what);
  if (kind == "operator") return ReadOperator(json, what);
  return Bad<decltype(Node::work)>(what, "unknown kind of node");
}

Result<Node> ReadNode(const Json& json, std::string_view what) {
  Node node;
  TRY_ASSIGN(const auto kind, JsonString(json, "kind", what));
  TRY_ASSIGN(node.work, ReadWork(json, kind, what));
  TRY_ASSIGN(const auto after, JsonIntList(json, "after", what));
  node.after.reserve(after.size());
  for (const int64_t index : after) {
    if (index < 0 || index >= static_cast<int64_t>(kMaxNodes)) {
      return Bad<Node>(what, "\"after\" out of range");
    }
    node.after.push_back(static_cast<int>(index));
  }
  return node;
}

Result<Buffer> ReadBuffer(const Json& json, std::string_view what) {
  Buffer buffer;
  TRY_ASSIGN(const auto kind, JsonString(json, "kind", what));
  const auto* const found = std::find(std::begin(kBufferKinds), std::end(kBufferKinds), kind);
  if (found == std::end(kBufferKinds)) return Bad<Buffer>(what, "unknown kind of buffer");
  buffer.kind = static_cast<BufferKind>(found - std::begin(kBufferKinds));
  TRY_ASSIGN(buffer.bytes, ReadCount(json, "bytes", what));
  if (buffer.kind == BufferKind::kArgument) {
    TRY_ASSIGN(const int64_t argument, JsonInt(json, "argument", what));
    if (argument < 0 || argument >= static_cast<int64_t>(kMaxBuffers)) {
      return Bad<Buffer>(what, "\"argument\" out of range");
    }
    buffer.argument = static_cast<int>(argument);
    if (json.contains("changes")) {
      TRY_ASSIGN(buffer.changes, JsonBool(json, "changes", what));
    }
  }
  if (buffer.kind == BufferKind::kSymbol) {
    TRY_ASSIGN(buffer.symbol, JsonString(json, "symbol", what));
    TRY_ASSIGN(buffer.image, ReadImage(json, what));
  }
  return buffer;
}

/// Reads every item of an array of at most `limit` items with `read`.
template <typename T, typename Read>
Result<std::vector<T>> ReadList(const Json& json, const char* key, size_t limit,
                                std::string_view what, Read read) {
  TRY_ASSIGN(const Json* list, JsonArray(json, key, what));
  if (list->size() > limit) {
    return Bad<std::vector<T>>(what, fmt::format("\"{}\" has more than {} items", key, limit));
  }
  std::vector<T> items;
  items.reserve(list->size());
  for (const Json& item : *list) {
    TRY_ASSIGN(auto value, read(item, fmt::format("{}.{}[{}]", what, key, items.size())));
    items.push_back(std::move(value));
  }
  return items;
}

Result<Number> ReadReturned(const Json& json, std::string_view what) {
  Number number;
  TRY_ASSIGN(const int64_t output, JsonInt(json, "output", what));
  number.output = static_cast<int>(std::clamp<int64_t>(output, -1, INT32_MAX));
  const Json value = json.value("value", Json());
  if (value.is_boolean()) {
    number.value = value.get<bool>();
  } else if (value.is_number_integer()) {
    TRY_ASSIGN(number.value, JsonInt(json, "value", what));
  } else {
    TRY_ASSIGN(number.value, JsonNumber(json, "value", what));
  }
  return number;
}

}  // namespace

Json ToJson(const Number& number) {
  return std::visit([](const auto value) { return Json(value); }, number.value);
}

Json ToJson(const Plan& plan) {
  Json buffers = Json::array();
  for (const Buffer& buffer : plan.buffers) {
    Json item{{"kind", kBufferKinds[static_cast<int>(buffer.kind)]}, {"bytes", buffer.bytes}};
    if (buffer.kind == BufferKind::kArgument) item["argument"] = buffer.argument;
    if (buffer.changes) item["changes"] = true;
    if (buffer.kind == BufferKind::kSymbol) item["symbol"] = buffer.symbol;
    if (buffer.image != 0) item["image"] = buffer.image;
    buffers.push_back(std::move(item));
  }
  Json nodes = Json::array();
  for (const Node& node : plan.nodes) {
    Json item{{"kind", KindOf(node)}};
    item.update(std::visit([](const auto& work) { return Write(work); }, node.work));
    item["after"] = node.after;
    nodes.push_back(std::move(item));
  }
  Json outputs = Json::array();
  for (const View& view : plan.outputs) {
    outputs.push_back(view.address.buffer == kNoneOutput ? Json(nullptr) : Write(view));
  }
  Json json{{"schema", kSchema},
            {"function", plan.function},
            {"device", plan.device},
            {"buffers", std::move(buffers)},
            {"nodes", std::move(nodes)},
            {"outputs", std::move(outputs)},
            {"returns_tuple", plan.returns_tuple}};
  if (plan.prepared != 0) json["prepared"] = plan.prepared;
  for (const Number& number : plan.numbers) {
    json["numbers"].push_back({{"output", number.output}, {"value", ToJson(number)}});
  }
  return json;
}

Result<Plan> FromJson(const Json& json, std::string_view what) {
  TRY_ASSIGN(const auto schema, JsonString(json, "schema", what));
  if (schema != kSchema) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: this program can only read plans of schema {}", what, kSchema));
  }
  Plan plan;
  TRY_ASSIGN(plan.function, JsonString(json, "function", what));
  TRY_ASSIGN(plan.device, JsonString(json, "device", what));
  TRY_ASSIGN(plan.buffers, ReadList<Buffer>(json, "buffers", kMaxBuffers, what, ReadBuffer));
  TRY_ASSIGN(plan.nodes, ReadList<Node>(json, "nodes", kMaxNodes, what, ReadNode));
  const auto read_output = [](const Json& item, std::string_view where) -> Result<View> {
    if (!item.is_null()) return ReadView(item, where);
    View none;
    none.address.buffer = kNoneOutput;
    return none;
  };
  TRY_ASSIGN(plan.outputs, ReadList<View>(json, "outputs", kMaxOutputs, what, read_output));
  TRY_ASSIGN(plan.returns_tuple, JsonBool(json, "returns_tuple", what));
  if (json.contains("prepared")) {
    TRY_ASSIGN(const int64_t prepared, JsonInt(json, "prepared", what));
    plan.prepared = static_cast<int>(std::clamp<int64_t>(prepared, -1, INT32_MAX));
  }
  if (json.contains("numbers")) {
    TRY_ASSIGN(plan.numbers, ReadList<Number>(json, "numbers", kMaxOutputs, what, ReadReturned));
  }
  TRY(Validate(plan));
  return plan;
}

}  // namespace cupel::plan
