// Tested by codec_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "plan/tensor_map_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "base/json.h"
#include "plan/limits.h"

namespace cupel::plan {
namespace {

// In the order of the enumerations.
constexpr const char* kTypes[] = {"uint8",        "uint16",       "uint32",        "int32",
                                  "uint64",       "int64",        "float16",       "float32",
                                  "float64",      "bfloat16",     "float32_ftz",   "tfloat32",
                                  "tfloat32_ftz", "16u4_align8b", "16u4_align16b", "16u6_align16b"};
constexpr const char* kInterleaves[] = {"none", "16b", "32b"};
constexpr const char* kSwizzles[] = {
    "none", "32b", "64b", "128b", "128b_atom_32b", "128b_atom_32b_flip_8b", "128b_atom_64b"};
constexpr const char* kPromotions[] = {"none", "64b", "128b", "256b"};
constexpr const char* kFills[] = {"zero", "nan"};

template <size_t kCount, typename Kind>
const char* NameIn(const char* const (&names)[kCount], Kind kind) {
  return names[static_cast<size_t>(kind)];
}

template <size_t kCount, typename Kind>
Status ReadKind(const Json& json, const char* key, const char* const (&names)[kCount],
                std::string_view what, Kind* kind) {
  TRY_ASSIGN(const std::string name, JsonString(json, key, what));
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: unknown \"{}\"", what, key));
  }
  *kind = static_cast<Kind>(found - std::begin(names));
  return {};
}

/// The first `count` values.
template <typename List>
Json First(const List& list, int count) {
  Json json = Json::array();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) json.push_back(list[i]);
  return json;
}

template <typename List>
Status ReadFirst(const Json& json, const char* key, int count, std::string_view what, List* list) {
  using T = typename List::value_type;
  constexpr auto kMost =
      static_cast<int64_t>(std::min<uint64_t>(std::numeric_limits<T>::max(), INT64_MAX));
  constexpr auto kLeast = static_cast<int64_t>(std::numeric_limits<T>::min());
  TRY_ASSIGN(const auto values, JsonIntList(json, key, what));
  if (values.size() != static_cast<size_t>(count) ||
      std::any_of(values.begin(), values.end(),
                  [](int64_t value) { return value < kLeast || value > kMost; })) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: \"{}\" must have {} integers in range", what, key, count));
  }
  std::transform(values.begin(), values.end(), list->begin(),
                 [](int64_t value) { return static_cast<T>(value); });
  return {};
}

Result<uint32_t> ReadSmall(const Json& json, const char* key, std::string_view what) {
  TRY_ASSIGN(const int64_t value, JsonInt(json, key, what));
  if (value < 0 || value > UINT32_MAX) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: \"{}\" out of range", what, key));
  }
  return static_cast<uint32_t>(value);
}

Json ToJson(const PlacedTensorMap& placed) {
  const TensorMap& map = placed.map;
  Json json{{"at", placed.at},
            {"address", Json::array({placed.address.buffer, placed.address.offset})},
            {"type", NameIn(kTypes, map.type)},
            {"dims", First(map.dims, map.rank)},
            {"strides", First(map.strides, map.rank - 1)},
            {"element_strides", First(map.element_strides, map.rank)},
            {"interleave", NameIn(kInterleaves, map.interleave)},
            {"swizzle", NameIn(kSwizzles, map.swizzle)},
            {"l2_promotion", NameIn(kPromotions, map.l2_promotion)},
            {"fill", NameIn(kFills, map.fill)}};
  if (!map.im2col) {
    json["box"] = First(map.box, map.rank);
    return json;
  }
  json["lower"] = First(map.lower, map.rank - 2);
  json["upper"] = First(map.upper, map.rank - 2);
  json["channels"] = map.channels;
  json["pixels"] = map.pixels;
  return json;
}

Result<TensorMap> ReadMap(const Json& json, std::string_view what) {
  TensorMap map;
  TRY(ReadKind(json, "type", kTypes, what, &map.type));
  TRY_ASSIGN(const Json* dims, JsonArray(json, "dims", what));
  map.im2col = !json.contains("box");
  if (dims->size() < (map.im2col ? 3 : 1) || dims->size() > kMaxTensorMapRank) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: a tensor map of {} dimensions", what, dims->size()));
  }
  map.rank = static_cast<int>(dims->size());
  TRY(ReadFirst(json, "dims", map.rank, what, &map.dims));
  TRY(ReadFirst(json, "strides", map.rank - 1, what, &map.strides));
  TRY(ReadFirst(json, "element_strides", map.rank, what, &map.element_strides));
  TRY(ReadKind(json, "interleave", kInterleaves, what, &map.interleave));
  TRY(ReadKind(json, "swizzle", kSwizzles, what, &map.swizzle));
  TRY(ReadKind(json, "l2_promotion", kPromotions, what, &map.l2_promotion));
  TRY(ReadKind(json, "fill", kFills, what, &map.fill));
  if (!map.im2col) {
    TRY(ReadFirst(json, "box", map.rank, what, &map.box));
    return map;
  }
  TRY(ReadFirst(json, "lower", map.rank - 2, what, &map.lower));
  TRY(ReadFirst(json, "upper", map.rank - 2, what, &map.upper));
  TRY_ASSIGN(map.channels, ReadSmall(json, "channels", what));
  TRY_ASSIGN(map.pixels, ReadSmall(json, "pixels", what));
  return map;
}

}  // namespace

Json TensorMapsToJson(const std::vector<PlacedTensorMap>& maps) {
  Json list = Json::array();
  for (const PlacedTensorMap& placed : maps) list.push_back(ToJson(placed));
  return list;
}

Result<std::vector<PlacedTensorMap>> ReadTensorMaps(const Json& node, std::string_view what) {
  std::vector<PlacedTensorMap> maps;
  if (!node.contains("tensor_maps")) return maps;
  TRY_ASSIGN(const Json* list, JsonArray(node, "tensor_maps", what));
  maps.reserve(list->size());
  for (const Json& item : *list) {
    PlacedTensorMap placed;
    TRY_ASSIGN(placed.at, ReadSmall(item, "at", what));
    TRY_ASSIGN(const auto address, JsonIntList(item, "address", what));
    if (address.size() != 2 || address[0] < -1 || address[0] > static_cast<int64_t>(kMaxBuffers)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: the address of a tensor map is invalid", what));
    }
    placed.address = {static_cast<int>(address[0]), address[1]};
    TRY_ASSIGN(placed.map, ReadMap(item, what));
    maps.push_back(placed);
  }
  return maps;
}

std::string Describe(const TensorMap& map) {
  const auto rank = static_cast<size_t>(map.rank);
  const std::string box = map.im2col
                              ? fmt::format("im2col {}x{}", map.channels, map.pixels)
                              : fmt::format("{}", fmt::join(std::span(map.box).first(rank), "x"));
  std::string text = fmt::format("{} {} of {}", NameIn(kTypes, map.type), box,
                                 fmt::join(std::span(map.dims).first(rank), "x"));
  if (map.swizzle != Swizzle::kNone)
    text += fmt::format(" swizzle {}", NameIn(kSwizzles, map.swizzle));
  return text;
}

}  // namespace cupel::plan
