// SPDX-License-Identifier: Apache-2.0
#include "task/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/json.h"

namespace cupel::task {
namespace {

constexpr uint64_t kMaxHeaderBytes = 16u << 20;
constexpr size_t kMaxTensors = 100'000;

std::optional<DType> DTypeFromCode(std::string_view code) {
  static constexpr std::pair<std::string_view, DType> kCodes[] = {
      {"F64", DType::kF64},   {"F32", DType::kF32},        {"F16", DType::kF16},
      {"BF16", DType::kBF16}, {"I64", DType::kI64},        {"I32", DType::kI32},
      {"I16", DType::kI16},   {"I8", DType::kI8},          {"U8", DType::kU8},
      {"BOOL", DType::kBool}, {"F8_E5M2", DType::kF8E5M2}, {"F8_E4M3", DType::kF8E4M3}};
  for (const auto& [name, dtype] : kCodes) {
    if (name == code) return dtype;
  }
  return std::nullopt;
}

tl::unexpected<Error> NotSafetensors(std::string_view what, std::string_view why) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: not a safetensors file: {}", what, why));
}

/// Product of `shape` times the element size, or nullopt on overflow.
std::optional<uint64_t> Bytes(const std::vector<int64_t>& shape, DType dtype) {
  auto bytes = static_cast<uint64_t>(SizeOf(dtype));
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return {};
  }
  return bytes;
}

struct Extent {
  uint64_t begin = 0, end = 0;
};

Result<Extent> ParseTensor(const Json& entry, const std::string& where,
                           std::span<const std::byte> data, Tensor& tensor) {
  TRY_ASSIGN(const std::string code, JsonString(entry, "dtype", where));
  const std::optional<DType> dtype = DTypeFromCode(code);
  if (!dtype) return NotSafetensors(where, fmt::format("unknown dtype \"{}\"", code));
  TRY_ASSIGN(tensor.shape, JsonIntList(entry, "shape", where));
  if (tensor.shape.size() > static_cast<size_t>(kMaxDims)) {
    return NotSafetensors(where, fmt::format("more than {} dimensions", kMaxDims));
  }
  TRY_ASSIGN(const std::vector<int64_t> offsets, JsonIntList(entry, "data_offsets", where));
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0] ||
      static_cast<uint64_t>(offsets[1]) > data.size()) {
    return NotSafetensors(where, "data_offsets are outside the file");
  }
  const Extent extent{static_cast<uint64_t>(offsets[0]), static_cast<uint64_t>(offsets[1])};
  const std::optional<uint64_t> bytes = Bytes(tensor.shape, *dtype);
  if (!bytes || *bytes != extent.end - extent.begin) {
    return NotSafetensors(where, "data_offsets do not match the shape");
  }
  tensor.dtype = *dtype;
  tensor.storage = data.subspan(extent.begin, *bytes);
  if (*bytes > 0 &&
      reinterpret_cast<uintptr_t>(tensor.storage.data()) % static_cast<uintptr_t>(SizeOf(*dtype)) !=
          0) {
    return NotSafetensors(where, "data is not aligned to its element type");
  }
  tensor.strides = ContiguousStrides(tensor.shape);
  return extent;
}

}  // namespace

Result<Safetensors> ParseSafetensors(std::span<const std::byte> file, std::string_view what) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes))
    return NotSafetensors(what, "shorter than its header length");
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.size() - sizeof(header_bytes)) {
    return NotSafetensors(what, "the header is longer than the file or than 16 MiB");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof(header_bytes),
                              header_bytes);
  TRY_ASSIGN(const Json header, ParseJson(text, fmt::format("{} (header)", what)));
  if (!header.is_object()) return NotSafetensors(what, "the header is not a JSON object");
  if (header.size() > kMaxTensors) return NotSafetensors(what, "too many tensors");
  const std::span<const std::byte> data = file.subspan(sizeof(header_bytes) + header_bytes);

  Safetensors result;
  std::vector<Extent> extents;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) return NotSafetensors(what, "__metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return NotSafetensors(what, "__metadata__ has non-string values");
        result.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    Tensor tensor;
    TRY_ASSIGN(const Extent extent,
               ParseTensor(entry, fmt::format("{}: tensor \"{}\"", what, name), data, tensor));
    extents.push_back(extent);
    if (!result.tensors.emplace(name, std::move(tensor)).second) {
      return NotSafetensors(what, fmt::format("duplicate tensor \"{}\"", name));
    }
  }
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t end = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != end) return NotSafetensors(what, "tensors overlap or leave holes");
    end = extent.end;
  }
  if (end != data.size()) return NotSafetensors(what, "the data is truncated or too long");
  return result;
}

}  // namespace cupel::task
