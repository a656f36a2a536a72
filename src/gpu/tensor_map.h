// Tensor maps in the driver's own format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "gpu/driver.h"
#include "plan/tensor_map.h"

namespace cupel::gpu {

/// The bytes of a CUtensorMap. They must be aligned while the driver writes them.
struct alignas(64) DriverTensorMap {
  std::array<std::byte, plan::kTensorMapBytes> bytes{};
};

/// Has the driver encode `map` of the tensor at `address`. Returns the driver's error for a map
/// that it rejects. CUDA_ERROR_NOT_SUPPORTED (801) if the driver is too old to know tensor maps.
CuResult EncodeTensorMap(const Driver& driver, const plan::TensorMap& map, CuPointer address,
                         DriverTensorMap* to);

}  // namespace cupel::gpu
