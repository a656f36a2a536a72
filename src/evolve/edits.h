// Applies a model's search-and-replace edits to a kernel, strictly: an edit that could be meant for
// two places, or for none, is refused with what the model needs to mend it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "evolve/reply.h"

namespace cupel::evolve {

/// Each search text must stand in `source` exactly once, as whole lines; blanks at the ends of
/// lines and CRLF do not count, all else does. All edits are of `source` as it is, and must not
/// overlap. The lines between them come out byte by byte. Error kInvalidArgument names the edit,
/// how often its text occurs and the line that comes nearest.
Result<std::string> ApplyEdits(std::string_view source, const std::vector<Edit>& edits);

}  // namespace cupel::evolve
