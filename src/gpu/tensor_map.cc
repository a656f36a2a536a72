// Tested by engine_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/tensor_map.h"

#include <bit>

namespace cupel::gpu {

CuResult EncodeTensorMap(const Driver& driver, const plan::TensorMap& map, CuPointer address,
                         DriverTensorMap* to) {
  constexpr CuResult kNotSupported = 801;
  // The enumerations of plan/tensor_map.h have the driver's numbers.
  const auto type = static_cast<int>(map.type), interleave = static_cast<int>(map.interleave),
             swizzle = static_cast<int>(map.swizzle),
             promotion = static_cast<int>(map.l2_promotion), fill = static_cast<int>(map.fill);
  const auto rank = static_cast<uint32_t>(map.rank);
  void* const at = std::bit_cast<void*>(address);
  if (map.im2col) {
    if (driver.tensor_map_im2col == nullptr) return kNotSupported;
    return driver.tensor_map_im2col(to->bytes.data(), type, rank, at, map.dims.data(),
                                    map.strides.data(), map.lower.data(), map.upper.data(),
                                    map.channels, map.pixels, map.element_strides.data(),
                                    interleave, swizzle, promotion, fill);
  }
  if (driver.tensor_map_tiled == nullptr) return kNotSupported;
  return driver.tensor_map_tiled(to->bytes.data(), type, rank, at, map.dims.data(),
                                 map.strides.data(), map.box.data(), map.element_strides.data(),
                                 interleave, swizzle, promotion, fill);
}

}  // namespace cupel::gpu
