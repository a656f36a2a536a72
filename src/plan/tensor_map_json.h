// Tensor maps in a plan's JSON (docs/formats/plan.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "plan/plan.h"

namespace cupel::plan {

Json TensorMapsToJson(const std::vector<PlacedTensorMap>& maps);

/// Reads the member "tensor_maps" of a node; no maps if there is no such member. Checks ranges of
/// fields only: Validate checks the rest.
Result<std::vector<PlacedTensorMap>> ReadTensorMaps(const Json& node, std::string_view what);

/// A short text: "float16 64x128 of 1000x77 swizzle 128B".
std::string Describe(const TensorMap& map);

}  // namespace cupel::plan
