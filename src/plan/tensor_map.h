// Tensor maps: what cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col describe, and which the
// asynchronous tensor copies of compute capability 9.0 read. NVIDIA keeps the 128 bytes of a
// CUtensorMap secret, so the recorder and the emulator use a layout of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cupel::plan {

/// The numbers of these enumerations are those of the CUDA driver (CUtensorMapDataType and so on).
enum class TensorMapType : uint8_t {
  kU8,
  kU16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kF32,
  kF64,
  kBF16,
  kF32Ftz,
  kTF32,
  kTF32Ftz,
  kU4Align8,   // 16 packed values of 4 bits, without gaps
  kU4Align16,  // 16 packed values of 4 bits, then a gap of 8 bytes
  kU6Align16,  // 16 packed values of 6 bits, then a gap of 4 bytes
};
enum class Interleave : uint8_t { kNone, k16B, k32B };
enum class Swizzle : uint8_t {
  kNone,
  k32B,
  k64B,
  k128B,
  k128BAtom32B,
  k128BAtom32BFlip8B,
  k128BAtom64B,
};
enum class L2Promotion : uint8_t { kNone, k64B, k128B, k256B };
enum class OobFill : uint8_t { kZero, kNan };

inline constexpr size_t kTensorMapBytes = 128;
inline constexpr int kMaxTensorMapRank = 5;

/// A tensor map without its address. Dimension 0 is the innermost one. Elements at and after `rank`
/// (`rank` - 1 for strides, `rank` - 2 for corners) are zero, so that equal maps compare equal.
struct TensorMap {
  TensorMapType type = TensorMapType::kU8;
  int rank = 1;
  bool im2col = false;
  std::array<uint64_t, kMaxTensorMapRank> dims{};             // in elements
  std::array<uint64_t, kMaxTensorMapRank - 1> strides{};      // in bytes, of dimensions 1, 2, …
  std::array<uint32_t, kMaxTensorMapRank> box{};              // in elements; zeros for im2col
  std::array<uint32_t, kMaxTensorMapRank> element_strides{};  // [0] is 1 without interleave
  Interleave interleave = Interleave::kNone;
  Swizzle swizzle = Swizzle::kNone;
  L2Promotion l2_promotion = L2Promotion::kNone;
  OobFill fill = OobFill::kZero;
  // im2col only: offsets of dimensions 1, 2, … (W, H, D) from the tensor's first and last pixel
  std::array<int, kMaxTensorMapRank - 2> lower{}, upper{};
  uint32_t channels = 0, pixels = 0;
  bool operator==(const TensorMap&) const = default;
};

/// Bits of one element in global memory: 4 and 6 for the packed types.
int BitsOf(TensorMapType type);

/// The rule of the CUDA driver that `map` breaks, for example "strides must be multiples of 16
/// bytes below 2^40"; empty if it breaks none. It checks the enumerations too, so `map` may come
/// from hostile text.
std::string_view ProblemOf(const TensorMap& map);

/// The alignment that the address of the tensor must have: 16 or 32 bytes.
uint32_t AlignmentOf(const TensorMap& map);

/// A tensor map as kernels find it: the address is a device address.
struct EncodedTensorMap {
  TensorMap map;
  uint64_t address = 0;
};

/// The bytes of a CUtensorMap in cupel's layout. Values that do not fit into their fields lose
/// their upper bits, as on a GPU.
std::array<std::byte, kTensorMapBytes> EncodeTensorMap(const TensorMap& map, uint64_t address);

/// Reads what EncodeTensorMap wrote. Nothing if there are fewer than 128 bytes, if they are
/// something else, or if the map breaks a rule; `problem`, if given, gets the reason.
std::optional<EncodedTensorMap> DecodeTensorMap(std::span<const std::byte> bytes,
                                                std::string_view* problem = nullptr);

/// The fields of any bytes, whether they are a map or not. Zeros are fields with the lowest values.
/// EncodeTensorMap makes a map of the result.
EncodedTensorMap FieldsOfTensorMap(std::span<const std::byte, kTensorMapBytes> bytes);

}  // namespace cupel::plan
