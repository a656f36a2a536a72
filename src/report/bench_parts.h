// "cupel.bench/1" (docs/formats/bench.md) of one kernel, put together of measurements of single
// settings. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"

namespace cupel::report {

inline constexpr size_t kLongestSettingId = 256;  // bytes

/// Those that an accepted kernel's verdict says passed, in its order, without sizes that nobody
/// asked for, and without ids that are empty, too long, or there before.
std::vector<std::string> SettingsToTime(const Json& verdict);

/// geometric_means, from `settings` as the document has them. What is not as expected is left out.
Json MeansOf(const Json& settings);

/// All parts' settings in their order; the rest is the first one's. Null for no parts. `verdict` is
/// that of `kernel`.
Json JoinBenches(std::span<const Json* const> parts, const std::string& kernel,
                 const Json& verdict);

}  // namespace cupel::report
