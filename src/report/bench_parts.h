// "cupel.bench/1" (docs/formats/bench.md) of one kernel, assembled from measurements of single
// settings by several workers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace cupel::report {

inline constexpr size_t kLongestSettingId = 256;  // bytes

/// The ids of the settings that passed in an accepted kernel's verdict, in its order. Derived
/// settings and ids that are empty, too long or repeated are left out.
std::vector<std::string> SettingsToTime(const Json& verdict);

/// Joins the settings of all parts in their order; other members are those of the first part. Null
/// if there are no parts. `verdict` is the verdict of `kernel`.
Json JoinBenches(std::span<const Json* const> parts, const std::string& kernel,
                 const Json& verdict);

}  // namespace cupel::report
