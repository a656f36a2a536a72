// Floats of 8 bits come in pairs, with one granule and one cell for both. The cell has the exact
// values of both as float32, which is precise enough for their two or three digits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "emu/shadow_memory.h"

namespace cupel::emu {

struct SmallPair {
  float low = 0, high = 0;
};
inline double PackPair(SmallPair pair) { return std::bit_cast<double>(pair); }
inline SmallPair UnpackPair(double exact) { return std::bit_cast<SmallPair>(exact); }

/// The value of a byte as e4m3 or e5m2.
double ValueOfByte(uint32_t byte, bool is_e4m3);

}  // namespace cupel::emu
