// Floats of 8 bits come in pairs, two in a granule: the one cell that it has holds the exact values
// of both, as float32, which is precise enough beside their three or two digits.
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

/// What a byte means; e5m2 when not e4m3.
double ValueOfByte(uint32_t byte, bool is_e4m3);

}  // namespace cupel::emu
