// Floats of 8 bits come in pairs, with one granule and one cell for both. The cell has the exact
// values of both as float32, which is precise enough for their two or three digits. Bytes that are
// stored or loaded alone are halves of a pair.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "emu/shadow/memory.h"

namespace cupel::emu {

struct SmallPair {
  float low = 0, high = 0;
};
inline double PackPair(SmallPair pair) { return std::bit_cast<double>(pair); }
inline SmallPair UnpackPair(double exact) { return std::bit_cast<SmallPair>(exact); }

/// The value of a byte as e4m3 or e5m2.
double ValueOfByte(uint32_t byte, bool is_e4m3);

/// The low byte of a pair that was read from, or is written to, an odd or even address.
inline float& HalfAt(SmallPair& pair, uint64_t address) {
  return (address & 1u) == 0 ? pair.low : pair.high;
}
/// True if a cell is tied to this byte at this address.
inline bool IsTiedToByte(const Cell& cell, uint64_t address, uint64_t byte) {
  return ((cell.bits >> (8 * (address & 1u))) & 0xffu) == (byte & 0xffu);
}
/// The exact value of one half, or `value` with a reset if only that is known.
Shadow HalfOf(float exact, double value, uint32_t flags);
/// Rounds a shadow to a float8 type: it saturates like `value`, the rounded number.
void RoundToFloat8(DType dtype, double value, Shadow& shadow);

}  // namespace cupel::emu
