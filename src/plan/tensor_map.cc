// Layout of the 128 bytes, little-endian:
// - magic (8), zero (8), checksum of what follows (8), address (8), strides (4 × 8)
// - dims - 1 (5 × 4), box - 1 (5), element strides - 1 (5), corners (6 × 2), channels (2), pixels
// (2)
// - type, rank - 1, im2col, interleave, swizzle, L2 promotion, fill (7), zeros
// Kernels make maps of zeroed memory (tensormap.replace), so zeros stand for the lowest values.
// The second word has no meaning: CUTLASS clears a bit of it, to avoid a fault of some drivers.
// SPDX-License-Identifier: Apache-2.0
#include "plan/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace cupel::plan {
namespace {

constexpr uint64_t kMagic = 0x70616d6c65707563;  // "cupelmap"
constexpr size_t kChecksum = 16, kChecked = 24;  // positions

uint64_t Checksum(std::span<const std::byte> bytes) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

/// Copies numbers to or from consecutive bytes. One function lists the fields for both directions.
template <typename Byte>
class Cursor {
 public:
  explicit Cursor(Byte* at) : at_(at) {}

  /// `value` as a `Stored`, minus `bias`.
  template <typename Stored, typename T>
  void Field(T& value, Stored bias = 0) {
    Stored stored{};
    if constexpr (std::is_const_v<Byte>) {
      std::memcpy(&stored, at_, sizeof stored);
      value = static_cast<std::remove_const_t<T>>(static_cast<uint64_t>(stored) + bias);
    } else {
      stored = static_cast<Stored>(static_cast<uint64_t>(value) - bias);
      std::memcpy(at_, &stored, sizeof stored);
    }
    at_ += sizeof stored;
  }

 private:
  Byte* at_;
};

template <typename Byte, typename Map, typename Address>
void Fields(Cursor<Byte> cursor, Map& map, Address& address) {
  cursor.template Field<uint64_t>(address);
  for (auto& stride : map.strides) cursor.template Field<uint64_t>(stride);
  // 2^32 must fit in 32 bits, and 256 in 8 bits.
  for (auto& dim : map.dims) cursor.template Field<uint32_t>(dim, 1);
  for (auto& box : map.box) cursor.template Field<uint8_t>(box, 1);
  for (auto& stride : map.element_strides) cursor.template Field<uint8_t>(stride, 1);
  for (auto& corner : map.lower) cursor.template Field<int16_t>(corner);
  for (auto& corner : map.upper) cursor.template Field<int16_t>(corner);
  cursor.template Field<uint16_t>(map.channels);
  cursor.template Field<uint16_t>(map.pixels);
  cursor.template Field<uint8_t>(map.type);
  cursor.template Field<uint8_t>(map.rank, 1);
  cursor.template Field<uint8_t>(map.im2col);
  cursor.template Field<uint8_t>(map.interleave);
  cursor.template Field<uint8_t>(map.swizzle);
  cursor.template Field<uint8_t>(map.l2_promotion);
  cursor.template Field<uint8_t>(map.fill);
}

/// Zeroes what the map does not have.
void Normalise(TensorMap* map) {
  const ptrdiff_t rank = std::clamp(map->rank, 1, kMaxTensorMapRank);
  std::fill(map->dims.begin() + rank, map->dims.end(), 0);
  std::fill(map->strides.begin() + rank - 1, map->strides.end(), 0);
  std::fill(map->element_strides.begin() + rank, map->element_strides.end(), 0);
  std::fill(map->box.begin() + (map->im2col ? 0 : rank), map->box.end(), 0);
}

/// What driver 580.159 accepts on an H200: the shared memory of a multiprocessor.
constexpr uint64_t kMostBoxBytes = uint64_t{228} << 10;

bool IsPacked16(TensorMapType type) {
  return type == TensorMapType::kU4Align16 || type == TensorMapType::kU6Align16;
}

bool IsFloat(TensorMapType type) {
  return type >= TensorMapType::kF16 && type <= TensorMapType::kTF32Ftz;
}

uint32_t SpanOf(Swizzle swizzle) {
  if (swizzle == Swizzle::k32B) return 32;
  if (swizzle == Swizzle::k64B) return 64;
  return 128;
}

template <typename List>
bool IsZeroFrom(const List& list, int first) {
  return std::all_of(list.begin() + std::min<ptrdiff_t>(first, std::ssize(list)), list.end(),
                     [](auto value) { return value == 0; });
}

std::string_view ProblemOfKinds(const TensorMap& map) {
  if (map.type > TensorMapType::kU6Align16) return "the data type does not exist";
  if (map.interleave > Interleave::k32B) return "the interleave layout does not exist";
  if (map.swizzle > Swizzle::k128BAtom64B) return "the swizzle does not exist";
  if (map.l2_promotion > L2Promotion::k256B) return "the L2 promotion does not exist";
  if (map.fill > OobFill::kNan) return "the out-of-bounds fill does not exist";
  if (map.fill == OobFill::kNan && !IsFloat(map.type)) {
    return "only floating-point types can fill with NaN";
  }
  const bool whole = map.swizzle == Swizzle::kNone || map.swizzle == Swizzle::k128B ||
                     map.swizzle == Swizzle::k128BAtom32B;
  if (map.type == TensorMapType::kU4Align16 && !whole) {
    return "16U4_ALIGN16B excludes this swizzle";
  }
  if (map.type == TensorMapType::kU6Align16 && !whole && map.swizzle != Swizzle::k128BAtom64B) {
    return "16U6_ALIGN16B excludes this swizzle";
  }
  if (map.type == TensorMapType::kU6Align16 && map.interleave != Interleave::kNone) {
    return "16U6_ALIGN16B excludes interleave";
  }
  return {};
}

std::string_view ProblemOfTensor(const TensorMap& map) {
  const int fewest = map.im2col || map.interleave != Interleave::kNone ? 3 : 1;
  if (map.rank < fewest || map.rank > kMaxTensorMapRank) {
    return "the rank must be 1 to 5, with im2col or interleave 3 to 5";
  }
  const auto rank = static_cast<size_t>(map.rank);
  for (size_t i = 0; i < rank; ++i) {
    if (map.dims[i] == 0 || map.dims[i] > uint64_t{1} << 32) return "dims must be 1 to 2^32";
    if (map.element_strides[i] == 0 || map.element_strides[i] > 8) {
      return "element strides must be 1 to 8";
    }
  }
  for (size_t i = 0; i + 1 < rank; ++i) {
    if (map.strides[i] % AlignmentOf(map) != 0 || map.strides[i] >= uint64_t{1} << 40) {
      return "strides must be multiples of 16 bytes (32 with interleave 32B and packed types) "
             "below 2^40";
    }
  }
  if (IsPacked16(map.type) && map.dims[0] % 128 != 0) {
    return "dims[0] of packed types must be a multiple of 128";
  }
  if (map.type == TensorMapType::kU4Align8 && map.dims[0] % 2 != 0) {
    return "dims[0] of 16U4_ALIGN8B must be a multiple of 2";
  }
  if (!IsZeroFrom(map.dims, map.rank) || !IsZeroFrom(map.strides, map.rank - 1) ||
      !IsZeroFrom(map.element_strides, map.rank)) {
    return "there are more values than dimensions";
  }
  return {};
}

/// Of what one copy moves: `elements` along the innermost dimension, `rows` of them.
std::string_view ProblemOfSize(const TensorMap& map, uint32_t elements, uint64_t rows) {
  const uint32_t bits = elements * static_cast<uint32_t>(BitsOf(map.type));
  if (bits * rows > kMostBoxBytes * 8) return "the box must have at most 228 KB";
  if (IsPacked16(map.type)) {
    return elements == 128 ? std::string_view() : "packed types need 128 elements per row";
  }
  // With interleave, an element has 16 or 32 bytes. Driver 580.159 demands this all the same.
  if (bits % (16 * 8) != 0) return "the inner dimension of the box must be a multiple of 16 bytes";
  if (map.interleave == Interleave::kNone && map.swizzle != Swizzle::kNone &&
      bits > SpanOf(map.swizzle) * 8) {
    return "the inner dimension of the box must fit into the span of the swizzle";
  }
  return {};
}

std::string_view ProblemOfBox(const TensorMap& map) {
  for (size_t i = 0; i < static_cast<size_t>(map.rank); ++i) {
    if (map.box[i] == 0 || map.box[i] > 256)
      return "the box must have 1 to 256 elements per dimension";
  }
  if (!IsZeroFrom(map.box, map.rank) || !IsZeroFrom(map.lower, 0) || !IsZeroFrom(map.upper, 0) ||
      map.channels != 0 || map.pixels != 0) {
    return "there are more values than dimensions";
  }
  uint64_t rows = 1;
  for (size_t i = 1; i < static_cast<size_t>(map.rank); ++i) {
    rows *= (map.box[i] + map.element_strides[i] - 1) / map.element_strides[i];
  }
  return ProblemOfSize(map, map.box[0], rows);
}

std::string_view ProblemOfColumns(const TensorMap& map) {
  const int spatial = map.rank - 2;
  constexpr int kReach[] = {32768, 128, 16};  // for 1, 2 and 3 spatial dimensions
  const int reach = kReach[spatial - 1];
  for (size_t i = 0; i < static_cast<size_t>(spatial); ++i) {
    for (const int corner : {map.lower[i], map.upper[i]}) {
      if (corner < -reach || corner >= reach) return "a corner of the bounding box is out of range";
    }
    const int64_t size = static_cast<int64_t>(map.dims[i + 1]) + map.upper[i] - map.lower[i];
    if (size <= 0) return "the bounding box is empty";
    if ((size - 1) / map.element_strides[i + 1] + 1 >= int64_t{1} << 31) {
      return "the bounding box must have fewer than 2^31 positions per dimension";
    }
  }
  if (map.channels == 0 || map.channels > 256) return "channels per pixel must be 1 to 256";
  if (map.pixels == 0 || map.pixels > 1024) return "pixels per column must be 1 to 1024";
  if (!IsZeroFrom(map.box, 0) || !IsZeroFrom(map.lower, spatial) ||
      !IsZeroFrom(map.upper, spatial)) {
    return "there are more values than dimensions";
  }
  return ProblemOfSize(map, map.channels, map.pixels);
}

}  // namespace

int BitsOf(TensorMapType type) {
  switch (type) {
    case TensorMapType::kU8:
      return 8;
    case TensorMapType::kU16:
    case TensorMapType::kF16:
    case TensorMapType::kBF16:
      return 16;
    case TensorMapType::kU64:
    case TensorMapType::kS64:
    case TensorMapType::kF64:
      return 64;
    case TensorMapType::kU4Align8:
    case TensorMapType::kU4Align16:
      return 4;
    case TensorMapType::kU6Align16:
      return 6;
    default:
      return 32;
  }
}

uint32_t AlignmentOf(const TensorMap& map) {
  return map.interleave == Interleave::k32B || IsPacked16(map.type) ? 32 : 16;
}

std::string_view ProblemOf(const TensorMap& map) {
  if (const auto problem = ProblemOfKinds(map); !problem.empty()) return problem;
  if (const auto problem = ProblemOfTensor(map); !problem.empty()) return problem;
  return map.im2col ? ProblemOfColumns(map) : ProblemOfBox(map);
}

std::array<std::byte, kTensorMapBytes> EncodeTensorMap(const TensorMap& map, uint64_t address) {
  std::array<std::byte, kTensorMapBytes> bytes{};
  Fields(Cursor(bytes.data() + kChecked), map, address);
  const uint64_t checksum = Checksum(std::span(bytes).subspan(kChecked));
  std::memcpy(bytes.data(), &kMagic, sizeof kMagic);
  std::memcpy(bytes.data() + kChecksum, &checksum, sizeof checksum);
  return bytes;
}

std::optional<EncodedTensorMap> DecodeTensorMap(std::span<const std::byte> bytes,
                                                std::string_view* problem) {
  std::string_view unused;
  std::string_view& why = problem != nullptr ? *problem : unused;
  why = "these bytes are not a tensor map";
  if (bytes.size() < kTensorMapBytes) return std::nullopt;
  uint64_t magic = 0, checksum = 0;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  std::memcpy(&checksum, bytes.data() + kChecksum, sizeof checksum);
  if (magic != kMagic) return std::nullopt;
  if (checksum != Checksum(bytes.subspan(kChecked, kTensorMapBytes - kChecked)))
    return std::nullopt;
  EncodedTensorMap encoded = FieldsOfTensorMap(bytes.first<kTensorMapBytes>());
  Normalise(&encoded.map);
  why = ProblemOf(encoded.map);
  if (!why.empty()) return std::nullopt;
  return encoded;
}

EncodedTensorMap FieldsOfTensorMap(std::span<const std::byte, kTensorMapBytes> bytes) {
  EncodedTensorMap encoded;
  Fields(Cursor(bytes.data() + kChecked), encoded.map, encoded.address);
  return encoded;
}

}  // namespace cupel::plan
