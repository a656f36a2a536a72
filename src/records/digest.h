// The digest that identifies a verdict's record (docs/formats/verdict.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json_fwd.h"

namespace cupel::records {

/// SHA-256 over everything except "timing", "digest" and "signatures", as compact JSON with sorted
/// keys.
std::string DigestOf(const Json& record);

/// Adds the member "digest".
void AddDigest(Json& record);

}  // namespace cupel::records
