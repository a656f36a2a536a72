// SPDX-License-Identifier: Apache-2.0
#include "plan/json_parts.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/json.h"
#include "plan/limits.h"

namespace cupel::plan {
Json Write(const Address& address) { return Json::array({address.buffer, address.offset}); }

Json Write(const View& view) {
  return Json{{"at", Write(view.address)},
              {"dtype", Name(view.dtype)},
              {"shape", view.shape},
              {"strides", view.strides}};
}

Json WriteNumber(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Result<std::vector<int64_t>> Integers(const Json& object, const char* key, size_t count,
                                      std::string_view what) {
  TRY_ASSIGN(auto list, JsonIntList(object, key, what));
  if (list.size() != count) {
    return Bad<std::vector<int64_t>>(what, fmt::format("\"{}\" must have {} integers", key, count));
  }
  return list;
}

Result<int> BufferIndex(int64_t value, std::string_view what) {
  if (value < -1 || value > static_cast<int64_t>(kMaxBuffers)) {
    return Bad<int>(what, "buffer index out of range");
  }
  return static_cast<int>(value);
}

Result<Address> ReadAddress(const Json& object, const char* key, std::string_view what) {
  TRY_ASSIGN(const auto pair, Integers(object, key, 2, what));
  TRY_ASSIGN(const int buffer, BufferIndex(pair[0], what));
  return Address{buffer, pair[1]};
}

Result<DType> ReadDType(std::string_view name, std::string_view what) {
  const auto dtype = DTypeFromName(name);
  if (!dtype) return Bad<DType>(what, "unknown dtype");
  return *dtype;
}

Result<View> ReadView(const Json& json, std::string_view what) {
  View view;
  TRY_ASSIGN(view.address, ReadAddress(json, "at", what));
  TRY_ASSIGN(const auto dtype, JsonString(json, "dtype", what));
  TRY_ASSIGN(view.dtype, ReadDType(dtype, what));
  TRY_ASSIGN(view.shape, JsonIntList(json, "shape", what));
  TRY_ASSIGN(view.strides, JsonIntList(json, "strides", what));
  return view;
}

Result<double> ReadNumber(const Json& object, const char* key, std::string_view what) {
  if (const auto text = JsonString(object, key, what)) {
    if (*text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (*text == "inf") return std::numeric_limits<double>::infinity();
    if (*text == "-inf") return -std::numeric_limits<double>::infinity();
  }
  return JsonNumber(object, key, what);
}

}  // namespace cupel::plan
