// c10::Float8_e4m3fn: 4 bits of exponent, 3 of fraction, NaN, no infinity; for host and device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/float8.h"

namespace c10 {
CUPEL_FLOAT8_TYPE(Float8_e4m3fn, E4M3FN)
}  // namespace c10

namespace std {
template <>
class numeric_limits<c10::Float8_e4m3fn>
    : public cupel::shim::Float8Limits<c10::Float8_e4m3fn, 4, -5, 9, 0x08, 0x7E, 0x20, 0x7F, false> {};
}  // namespace std

namespace at {
using c10::Float8_e4m3fn;
}  // namespace at
