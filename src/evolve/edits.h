// Applies a model's search-and-replace edits to a kernel, strictly: an edit must match exactly one
// place. Otherwise the error says what the model needs to correct the edit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "evolve/reply.h"

namespace cupel::evolve {

/// Each search text must occur in `source` exactly once, as whole lines. Blanks at line ends and
/// CRLF are ignored; everything else must match. All edits refer to the original `source` and must
/// not overlap. Lines between edits are copied unchanged, byte by byte. Error kInvalidArgument
/// names the edit, how often its text occurs, and the nearest line.
Result<std::string> ApplyEdits(std::string_view source, const std::vector<Edit>& edits);

}  // namespace cupel::evolve
