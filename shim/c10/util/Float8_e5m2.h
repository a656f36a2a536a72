// c10::Float8_e5m2: 5 bits of exponent, 2 of fraction; for host and device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/float8.h"

namespace c10 {
CUPEL_FLOAT8_TYPE(Float8_e5m2, E5M2)
}  // namespace c10

namespace std {
template <>
class numeric_limits<c10::Float8_e5m2>
    : public cupel::shim::Float8Limits<c10::Float8_e5m2, 3, -13, 16, 0x04, 0x7B, 0x34, 0x7C, true> {};
}  // namespace std

namespace at {
using c10::Float8_e5m2;
}  // namespace at
