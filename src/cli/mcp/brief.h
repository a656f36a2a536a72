// Shortens long documents for language models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace cupel::cli {

/// Shortens `document`, an object, to about `max_bytes`. It first removes the members that
/// `leave_out` names ("/settings/*/trials"), then cuts arrays and texts, the longest first. The
/// member "left_out" is always added and lists what is missing.
Json Brief(Json document, std::span<const std::string_view> leave_out, size_t max_bytes);

/// The first lines of `text`, at most `max_bytes`. If some are missing, a last line says how much.
std::string FirstLines(std::string_view text, size_t max_bytes);

}  // namespace cupel::cli
