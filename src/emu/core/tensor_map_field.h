// tensormap.replace as a micro-op ("@tensormap.replace").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cupel::emu {

/// What tensormap.replace changes of a tensor map. Op::flops has the field, and above its 8 bits
/// the ordinal of the dimension.
enum class MapField : uint8_t {
  kGlobalAddress,
  kRank,
  kBoxDim,
  kGlobalDim,
  kGlobalStride,
  kElementStride,
  kElementType,
  kInterleave,
  kSwizzleMode,
  kSwizzleAtomicity,
  kFillMode,
};

}  // namespace cupel::emu
