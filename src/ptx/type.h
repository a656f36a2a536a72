// The types and state spaces of PTX.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace cupel::ptx {

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kTF32,
  kF32,
  kF32x2,
  kF64,
  kE4M3,
  kE5M2,
  kE4M3x2,
  kE5M2x2,
  kU16x2,
  kS16x2,
  kB1,
  kS4,
  kU4,
  kE2M1,
  kE2M3,
  kE3M2,
  kE2M1x2,
  kE2M3x2,
  kE3M2x2,
  kUE8M0x2,
};
/// Bytes of one value; 0 for kNone, kPred and types narrower than a byte.
int SizeOf(Type type);
std::string_view Name(Type type);  // "u32", without the dot

enum class Space : uint8_t { kNone, kGlobal, kShared, kLocal, kConst, kParam, kReg };

}  // namespace cupel::ptx
