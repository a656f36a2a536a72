// Declares the name Json for headers that only pass it on. base/json.h has the class and its
// functions, but takes the compiler three seconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace cupel {

using Json = nlohmann::ordered_json;

}  // namespace cupel
