// Tested by nodes_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/nodes/convert.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace cupel::emu {
namespace {

// Distinct types for dtypes without an arithmetic type in C++.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct E5M2 {
  uint8_t bits;
};
struct E4M3 {
  uint8_t bits;
};
struct Bool {
  uint8_t bits;
};

template <typename T>
concept Float8 = std::is_same_v<T, E5M2> || std::is_same_v<T, E4M3>;
template <Float8 T>
constexpr DType kDTypeOf = std::is_same_v<T, E5M2> ? DType::kF8E5M2 : DType::kF8E4M3;

// cvt.rzi: towards zero, saturating; NaN becomes 0 unless one side has 64 bits, then the smallest
// integer (PTX ISA, "cvt").
template <typename Int, typename Float>
Int Truncate(Float value) {
  constexpr bool kWide = sizeof(Int) == 8 || sizeof(Float) == 8;
  if (std::isnan(value)) return kWide ? std::numeric_limits<Int>::min() : 0;
  constexpr Float kTwoToBits = static_cast<Float>(uint64_t{1} << (8 * sizeof(Int) - 1));
  if (value >= kTwoToBits) return std::numeric_limits<Int>::max();
  if (value < -kTwoToBits) return std::numeric_limits<Int>::min();
  return static_cast<Int>(value);
}

template <typename To, typename From>
To Convert(From value) {
  if constexpr (std::is_same_v<From, Half>) {
    return Convert<To>(HalfToFloat(value.bits));
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return Convert<To>(BFloat16ToFloat(value.bits));
  } else if constexpr (Float8<From>) {
    return Convert<To>(Float8ToFloat(kDTypeOf<From>, value.bits));
  } else if constexpr (std::is_same_v<From, Bool>) {
    return Convert<To>(static_cast<uint8_t>(value.bits != 0));
  } else if constexpr (std::is_same_v<To, Bool>) {
    return Bool{static_cast<uint8_t>(value != From{0})};
  } else if constexpr (std::is_same_v<To, Half>) {
    return Half{FloatToHalf(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return BFloat16{FloatToBFloat16(static_cast<float>(value))};
  } else if constexpr (Float8<To>) {
    return To{FloatToFloat8(kDTypeOf<To>, static_cast<float>(value))};
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint8_t>) {
    return static_cast<uint8_t>(Truncate<int64_t>(value));  // as c10::convert does: negatives wrap
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, int64_t>) {
    return Truncate<int64_t>(value);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return static_cast<To>(Truncate<int32_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

// Converts one row of n elements; strides are in elements. It uses memcpy because storages of
// hostile plans may be misaligned.
template <typename To, typename From>
void ConvertRow(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride,
                int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, from + i * from_stride * static_cast<int64_t>(sizeof(From)), sizeof value);
    To result;
    if constexpr (std::is_same_v<To, From>) {
      result = value;  // keeps all bits, including NaN payloads
    } else {
      result = Convert<To>(value);
    }
    std::memcpy(to + i * to_stride * static_cast<int64_t>(sizeof(To)), &result, sizeof result);
  }
}

using RowFunction = void (*)(std::byte*, int64_t, const std::byte*, int64_t, int64_t);

template <typename To>
RowFunction RowFrom(DType from) {
  switch (from) {
    case DType::kU8:
      return ConvertRow<To, uint8_t>;
    case DType::kI8:
      return ConvertRow<To, int8_t>;
    case DType::kI16:
      return ConvertRow<To, int16_t>;
    case DType::kI32:
      return ConvertRow<To, int32_t>;
    case DType::kI64:
      return ConvertRow<To, int64_t>;
    case DType::kF16:
      return ConvertRow<To, Half>;
    case DType::kF32:
      return ConvertRow<To, float>;
    case DType::kF64:
      return ConvertRow<To, double>;
    case DType::kBool:
      return ConvertRow<To, Bool>;
    case DType::kBF16:
      return ConvertRow<To, BFloat16>;
    case DType::kF8E5M2:
      return ConvertRow<To, E5M2>;
    case DType::kF8E4M3:
      return ConvertRow<To, E4M3>;
  }
  return nullptr;
}

RowFunction Row(DType to, DType from) {
  switch (to) {
    case DType::kU8:
      return RowFrom<uint8_t>(from);
    case DType::kI8:
      return RowFrom<int8_t>(from);
    case DType::kI16:
      return RowFrom<int16_t>(from);
    case DType::kI32:
      return RowFrom<int32_t>(from);
    case DType::kI64:
      return RowFrom<int64_t>(from);
    case DType::kF16:
      return RowFrom<Half>(from);
    case DType::kF32:
      return RowFrom<float>(from);
    case DType::kF64:
      return RowFrom<double>(from);
    case DType::kBool:
      return RowFrom<Bool>(from);
    case DType::kBF16:
      return RowFrom<BFloat16>(from);
    case DType::kF8E5M2:
      return RowFrom<E5M2>(from);
    case DType::kF8E4M3:
      return RowFrom<E4M3>(from);
  }
  return nullptr;
}

struct Dim {
  int64_t size, to_stride, from_stride;
};

// Drops dimensions of size one and merges neighbours that are contiguous in both arrays. The last
// dimension is the row for ConvertRow.
std::vector<Dim> Coalesce(std::span<const int64_t> shape, std::span<const int64_t> to,
                          std::span<const int64_t> from) {
  std::vector<Dim> dims;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    const Dim dim{shape[i], to[i], from[i]};
    if (!dims.empty() && dims.back().to_stride == dim.size * dim.to_stride &&
        dims.back().from_stride == dim.size * dim.from_stride) {
      dims.back() = {dims.back().size * dim.size, dim.to_stride, dim.from_stride};
    } else {
      dims.push_back(dim);
    }
  }
  if (dims.empty()) dims.push_back({1, 1, 1});
  return dims;
}

constexpr int64_t kElementsPerTask = 1 << 16;

// Splits a long row so that several threads can share one contiguous tensor.
void CutLongRow(std::vector<Dim>* dims) {
  Dim& row = dims->back();
  if (dims->size() != 1 || row.size < 2 * kElementsPerTask) return;
  int64_t pieces = row.size / kElementsPerTask;
  while (row.size % pieces != 0) --pieces;
  const Dim inner{row.size / pieces, row.to_stride, row.from_stride};
  row = {pieces, inner.size * inner.to_stride, inner.size * inner.from_stride};
  dims->push_back(inner);
}

}  // namespace

void CopyStrided(std::span<const int64_t> shape, const StridedArray<std::byte>& to,
                 const StridedArray<const std::byte>& from, ThreadPool& pool) {
  for (int64_t size : shape) {
    if (size == 0) return;
  }
  std::vector<Dim> dims = Coalesce(shape, to.strides, from.strides);
  CutLongRow(&dims);
  const Dim row = dims.back();
  dims.pop_back();
  uint64_t rows = 1;
  for (const Dim& dim : dims) rows *= static_cast<uint64_t>(dim.size);

  const RowFunction convert = Row(to.dtype, from.dtype);
  const int64_t to_size = SizeOf(to.dtype);
  const int64_t from_size = SizeOf(from.dtype);
  const bool plain = to.dtype == from.dtype && row.to_stride == 1 && row.from_stride == 1;
  auto body = [&](uint64_t begin, uint64_t end) {
    for (uint64_t r = begin; r < end; ++r) {
      auto rest = static_cast<int64_t>(r);
      int64_t to_at = 0;
      int64_t from_at = 0;
      for (size_t i = dims.size(); i-- > 0;) {
        const int64_t index = rest % dims[i].size;
        rest /= dims[i].size;
        to_at += index * dims[i].to_stride;
        from_at += index * dims[i].from_stride;
      }
      std::byte* out = to.data + to_at * to_size;
      const std::byte* in = from.data + from_at * from_size;
      if (plain) {
        std::memmove(out, in, static_cast<size_t>(row.size * to_size));
      } else {
        convert(out, row.to_stride, in, row.from_stride, row.size);
      }
    }
  };
  const auto grain = static_cast<uint64_t>(std::max<int64_t>(1, kElementsPerTask / row.size));
  pool.ParallelFor(rows, grain, body);
}

}  // namespace cupel::emu
