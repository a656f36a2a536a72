// What of a long document a language model needs to see. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace cupel::cli {

/// `document`, an object, in about `max_bytes`: without the members that `leave_out` names
/// ("/settings/*/trials"), then with its arrays and texts cut, the longest first. What was left out
/// is listed in a member "left_out", which is always there.
Json Brief(Json document, std::span<const std::string_view> leave_out, size_t max_bytes);

/// The first lines of `text` in at most `max_bytes`, and a line that says how much is missing.
std::string FirstLines(std::string_view text, size_t max_bytes);

}  // namespace cupel::cli
