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

/// Why edits could not be applied.
struct EditProblem {
  std::vector<size_t> edits;  // indices, ascending: one, or two that overlap
  std::string message;        // names the edit, how often its text occurs, and the nearest line
  std::string region;  // lines of the source around the nearest place; empty: nothing is near
};

/// Each search text must occur in `source` exactly once, as whole lines. Blanks at line ends and
/// CRLF are ignored; everything else must match. All edits refer to the original `source` and must
/// not overlap. Lines between edits are copied unchanged, byte by byte. The texts of a problem are
/// for the model that wrote the edits.
tl::expected<std::string, EditProblem> ApplyEdits(std::string_view source,
                                                  const std::vector<Edit>& edits);

}  // namespace cupel::evolve
